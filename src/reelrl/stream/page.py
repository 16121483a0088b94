"""One HTML page about an evaluation of bitrate controllers; pictures are inside, so the file can be sent around."""

from __future__ import annotations

import base64
import html
from typing import TYPE_CHECKING, Any

from reelrl.storage.files import write_atomic
from reelrl.stream.evaluate import share_title

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.stream.evaluate import Line

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .7rem; border-bottom: 1px solid #ddd; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; }
.note { color: #666; }
.wide { overflow-x: auto; }
"""
_METHOD = "Intervals are 95 % bootstrap over sessions; comparisons are paired on the same trace and video."
_HEADS = (
    "controller",
    "QoE",
    "95 % interval",
    "median",
    "p10",
    "quality",
    "rebuffer",
    "smooth",
    "stall s",
)


def write_page(
    path: Path, lines: list[Line], reference: str | None, facts: dict[str, Any], figures: list[Path]
) -> None:
    """The table, the figures and how both were made."""
    heads = [*_HEADS, share_title(lines), *([f"against {reference}"] if reference else [])]
    body = [
        "<h1>Bitrate controllers</h1>",
        f"<p>{_scope(facts)}</p>",
        '<div class="wide"><table><tr>' + "".join(f"<th>{html.escape(head)}</th>" for head in heads) + "</tr>",
        *(_row(line, reference) for line in lines),
        "</table></div>",
        f"<p class=note>{_METHOD}</p>",
        *(_picture(figure) for figure in figures),
        f'<p class="note">{html.escape(str(facts.get("command", "")))}</p>',
    ]
    document = "\n".join(body)
    write_atomic(
        path,
        f"<!doctype html><meta charset=utf-8><title>Bitrate controllers</title><style>{_STYLE}</style>{document}\n",
    )


def _scope(facts: dict[str, Any]) -> str:
    videos = html.escape(", ".join(map(str, facts["videos"])))
    what = f"{facts['sessions']} sessions: {facts['traces']} traces, {videos}."
    return f"{what} QoE ({html.escape(str(facts['qoe']))}) per chunk, the first chunk left out."


def _row(line: Line, reference: str | None) -> str:
    share = "" if line.best_share is None else f"{100 * line.best_share:.1f} %"
    cells = [
        line.title,
        f"{line.qoe.mean:.4f}",
        f"{line.qoe.low:.3f} to {line.qoe.high:.3f}",
        *(f"{value:.3f}" for value in (line.median, line.p10, line.quality, line.rebuffer, line.smooth)),
        f"{line.rebuffer_s:.2f}",
        share,
    ]
    if reference:
        cells.append(
            ""
            if line.paired is None
            else f"{line.paired.mean:+.4f} ({line.paired.low:+.3f} to {line.paired.high:+.3f})"
        )
    return "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"


def _picture(path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    title = html.escape(path.stem.replace("-", " "))
    return f'<h2>{title}</h2><img alt="{title}" src="data:image/png;base64,{data}">'
