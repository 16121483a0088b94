"""The part of `reel demo` on streaming: one video over one bad network with three controllers, as a film."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from reelrl.report.demo_part import DemoPart
from reelrl.runs.progress import Progress
from reelrl.storage.files import writable_folder
from reelrl.storage.regular_files import own_path
from reelrl.stream.demo import measure as demo
from reelrl.stream.demo import page
from reelrl.stream.demo.film import write_side_by_side

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.report.demo_part import DemoOptions

FILM = "three-viewers.mp4"


def make(folder: Path, options: DemoOptions) -> DemoPart:  # noqa: ARG001 - has a clip of its own
    site = writable_folder(folder / "stream")
    segments = demo.segment_count()
    with Progress("ladder", segments * len(demo.SETTINGS.kbps), unit="segments") as progress:
        ladder = demo.make_site(site, demo.CLIP, demo.SETTINGS, progress.update)
    trace = demo.bad_link(ladder)
    link = demo.save_link(trace, site)
    controllers, missing = demo.load_all(demo.CONTROLLERS)
    with Progress("watch", len(controllers), unit="viewers") as progress:
        watchings = []
        for name, controller in controllers.items():
            watchings.append(demo.watch(name, controller, trace, ladder))
            progress.update()
    poster = write_side_by_side(own_path(folder / FILM), site, ladder, watchings)
    words = ["reel", "play", str(site), "--controller", *controllers, "--trace", str(link)]
    live = shlex.join([*words, "--buffer", f"{demo.BUFFER_S:g}"])
    lines: list[list[str]] = [["left", each] for each in missing]
    for each in watchings:
        played = each.playback
        facts = f"QoE {played.qoe:.3f}", f"stalled {played.rebuffer_s:.1f} s", f"{played.switches} switches"
        lines.append(["view", played.controller, *facts])
    lines.append(["live", live])
    record = {"viewings": [each.playback.row() for each in watchings]}
    packaging = ["reel", "ladder", demo.CLIP, "-o", str(site), *_rungs(), "--preset", str(demo.SETTINGS.preset)]
    sections = page.sections(watchings, ladder, trace, FILM, poster, live=live, site=shlex.join(packaging))
    return DemoPart(page.TITLE, page.LEAD, sections, record, lines, [FILM])


def _rungs() -> list[str]:
    rates, quantisers = demo.SETTINGS.kbps, demo.SETTINGS.qps
    return ["--kbps", *(f"{rate:g}" for rate in rates)] if rates else ["--qps", *map(str, quantisers)]
