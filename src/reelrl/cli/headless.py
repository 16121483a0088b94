"""What `reel play --headless` prints: viewings in real browsers beside what the simulator says of them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from reelrl.cli import output
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from reelrl.stream.play.headless import Habits, Watched
    from reelrl.stream.play.service import Show


def run(args: argparse.Namespace, show: Show, url: str) -> int:
    """Every controller on every trace, up to `--sessions` viewings."""
    from reelrl.runs.progress import Progress
    from reelrl.storage.files import check_output, write_atomic
    from reelrl.stream.play.app import PAGE_FOLDER
    from reelrl.stream.play.chromium import BrowserError
    from reelrl.stream.play.headless import compared, watch_all

    check_output(args.output)
    pairs = [(name, trace.name) for trace in show.traces for name in show.controllers][: args.sessions]
    if not pairs:
        raise ConfigError("--headless compares viewings over a network; give --trace FILE or --traces DIR")
    if not (PAGE_FOLDER / "vendor" / "dash.all.min.js").is_file():
        raise ConfigError("dash.js is not here, so no page can play; in a checkout run: python hatch_build.py")
    with Progress("watch", len(pairs), unit="viewings") as progress:

        def ended(lost: BrowserError | None) -> None:
            progress.update()
            if lost:
                print(f"lost   {lost}", file=sys.stderr)

        seen = watch_all(show, url, pairs, qoe=args.qoe, at_once=args.at_once, ended=ended)
    if not seen:
        raise BrowserError(f"none of {len(pairs)} viewings came to its end; open {url} to look at one")
    viewings, known = compared(show, seen, args.qoe)
    found = _summary(viewings, known)
    if args.output:
        rows = [each.row() | {"record": each.record} for each in viewings]
        write_atomic(args.output, json.dumps(found | {"viewings": rows}))
    if args.json:
        output.as_json(found | {"viewings": [each.row() for each in viewings]})
        return 0
    _show(viewings, known, found)
    return 0


def _show(viewings: Sequence[Watched], known: Habits, found: Mapping[str, Any]) -> None:
    for each in viewings:
        stalls = f"stalled {each.stalled_s:.1f} s, predicted {each.predicted_stalled_s:.1f} s"
        output.line(
            "view", f"{each.controller} on {each.trace}", f"QoE {each.qoe:.3f}, predicted {each.predicted:.3f}", stalls
        )
    for name, rows in found["agreement"].items():
        plain, informed = rows["simulator"], rows["by habits"]
        output.line(
            "agree",
            name,
            f"{plain['sessions']} viewings",
            f"QoE {plain['measured']:.3f}, predicted {plain['predicted']:.3f}",
            f"error {plain['error']:+.3f} (absolute {plain['absolute_error']:.3f}), r {plain['correlation']:.3f}",
            f"by habits {informed['error']:+.3f} ({informed['absolute_error']:.3f}), r {informed['correlation']:.3f}",
        )
    pause, full = f"pauses {known.pause_ms:.0f} ms between segments", f"keeps {known.full_s:.1f} s when it is full"
    output.line("habits", pause, full, "ABREnv(queue_delay_ms=..., buffer_s=...)")
    output.line("order", "browser", " > ".join(found["order"]["browser"]))
    output.line("order", "simulator", " > ".join(found["order"]["simulator"]))


def _summary(viewings: list[Watched], known: Habits) -> dict[str, Any]:
    """Agreement for each controller and for all, and who was best in either world."""
    from dataclasses import asdict

    from reelrl.stream.play.headless import agreement

    names = list(dict.fromkeys(each.controller for each in viewings))
    groups = {name: [each for each in viewings if each.controller == name] for name in names} | {"all": viewings}
    rows = {
        name: {
            "simulator": asdict(agreement(group)),
            "by habits": asdict(agreement(group, by_habits=True)),
        }
        for name, group in groups.items()
    }
    order = {
        world: sorted(names, key=lambda name: -rows[name]["simulator"][key])
        for world, key in (("browser", "measured"), ("simulator", "predicted"))
    }
    return {"habits": known._asdict(), "agreement": rows, "order": order}
