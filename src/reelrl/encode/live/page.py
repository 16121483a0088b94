"""One HTML page about an evaluation of live coding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reelrl.encode.live.evaluate import CBR
from reelrl.encode.live.summary import ALL, METRICS, heads_and_cells
from reelrl.report import bd_page, page
from reelrl.report.verdicts import METRIC_NAMES
from reelrl.storage.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reelrl.encode.live.summary import LiveRow
    from reelrl.report.verdicts import ClipResult

_METHOD = (
    "One frame in, one QP out: nothing of a later frame is known. A frame is late when its last bit arrives later than "
    "the buffer allows, on a link that carries the target rate. Target rates of a clip are what fixed QPs take. "
    "BD-rate: the change in bits at equal quality against cbr of SVT-AV1 with a buffer of the same size, at the rates "
    "spent; below zero is a saving. Means are over clips, intervals 95 % bootstrap over clips. Dropped frames count "
    "with the picture that stays on the screen."
)


def write_page(path: Path, rows: Sequence[LiveRow], results: Sequence[ClipResult], facts: dict[str, Any]) -> None:
    """Everything on one page."""
    heads, cells = heads_and_cells(rows)
    anchors = dict.fromkeys(result.anchor for result in results)
    titles = {(anchor, metric): f"{METRIC_NAMES[metric]} against {anchor}" for anchor in anchors for metric in METRICS}
    whole = [row for row in rows if row.set == ALL and row.contestant != CBR]
    verdicts = [each for row in whole for each in row.bd.values()]
    first = [row.bd[METRICS[0]] for row in whole if METRICS[0] in row.bd and row.decision_us]
    headline, sure = bd_page.headline(first, results)
    body = [
        page.section("Late frames, rates, bits", "Set by set, buffer by buffer.", page.table(heads, cells)),
        bd_page.clip_tables(results, titles),
        bd_page.method(_METHOD, verdicts, facts),
    ]
    write_atomic(path, page.page(headline, sure, body, kicker="reel evaluate live"))
