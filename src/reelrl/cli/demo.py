"""A tour in parts, and one page to look at.

reel demo                                  all parts, about a minute
reel demo --only encode                    one of them; --skip leaves some out
reel demo --clip film.mkv --frames 90      the part on encoding for a clip of yours

encode   Both encoders code the clip at several QPs. Then each gets a map of QP offsets that favours the superblocks
         where something moves, and a base QP that brings it back to the size without a map, so that the two can be
         compared.
stream   One video over one bad network with three controllers: a film of what each viewer saw, on one clock.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

from reelrl import __version__
from reelrl.cli import options, output
from reelrl.errors import ConfigError, MissingExtra, ReelError, missing_extra
from reelrl.runs.progress import Progress
from reelrl.storage.files import writable_folder, write_atomic
from reelrl.storage.regular_files import own_path

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from reelrl.content import Clip
    from reelrl.encode.demo.measure import Motion, Trial
    from reelrl.report.page import Html

CLIP, FRAMES = "generated:street", 60
PARTS = ("encode", "stream")
FILM = "three-viewers.mp4"


class DemoPart(NamedTuple):
    """What a part leaves: its heading where it comes first, its sections, its figures, the lines that it prints."""

    title: str
    lead: str
    sections: Sequence[Html]
    record: dict[str, Any]
    lines: Sequence[Sequence[str]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_json(parser)
    parser.add_argument("-o", "--out", metavar="FOLDER", default="demo", help="where the page goes (default: demo)")
    parser.add_argument("--clip", default=CLIP, help=f"a name from `reel clips`, a recipe or a file (default: {CLIP})")
    parser.add_argument("--frames", type=int, default=FRAMES, metavar="N", help=f"frames at most (default: {FRAMES})")
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--skip", nargs="+", choices=PARTS, default=[], metavar="PART", help="leave these out")


def run(args: argparse.Namespace) -> int:
    from reelrl.report.page import page

    names = [name for name in args.only or PARTS if name not in args.skip]
    if not names:
        raise ConfigError("--only and --skip leave no part of the demo; name one fewer with --skip")
    folder = writable_folder(args.out)
    made, missing = _made(names, args, folder)
    document = page(
        made[0].title,
        made[0].lead,
        [each for part in made for each in part.sections] + [_left_out(*each) for each in missing.items()],
        kicker=f"reelrl {__version__}",
        foot="Made by reel demo. No figure on this page was typed in by hand.",
    )
    # The videos are there by now: whoever finds a page finds a whole one.
    path = own_path(folder / "index.html")
    write_atomic(path, document)
    if args.json:
        record: dict[str, Any] = {"page": str(path), "left_out": {name: str(why) for name, why in missing.items()}}
        output.as_json(record | {key: value for part in made for key, value in part.record.items()})
    else:
        for part in made:
            for line in part.lines:
                output.line(*line)
        for name, why in missing.items():
            output.line("left", name, why)
        output.line("page", path, "open it in a browser")
        output.next_command("reel clips")
    # A package that is not installed is no fault; its part says which one.
    return 1 if any(not isinstance(why, MissingExtra) for why in missing.values()) else 0


def _made(names: Sequence[str], args: argparse.Namespace, folder: Path) -> tuple[list[DemoPart], dict[str, ReelError]]:
    """The parts that could be made, and why the others could not; one at least, or the first reason is raised."""
    makers = {"encode": lambda: encode_part(args, folder), "stream": lambda: stream_part(folder)}
    made, missing = [], {}
    for name in names:
        try:
            made.append(makers[name]())
        except ReelError as error:
            missing[name] = error
        except ModuleNotFoundError as error:
            if (extra := missing_extra(error)) is None:
                raise
            missing[name] = extra
    if not made:
        raise next(iter(missing.values()))
    return made, missing


def _left_out(name: str, why: ReelError) -> Html:
    from reelrl.report.page import section

    return section(f"Left out: {name}", f"{why}. Then: reel demo --only {name}")


def encode_part(args: argparse.Namespace, folder: Path) -> DemoPart:
    from reelrl.encode.demo import page

    clip = _open(args.clip, args.frames)
    if not args.json:
        output.line("clip", clip.name, f"{clip.width}x{clip.height}", f"{clip.frame_count} frames", f"{clip.fps} fps")
    motion, trials = _measure(clip)
    sections = page.sections(clip, motion, trials, _command(args))
    for trial in trials:
        trial.plain.coded.save(own_path(folder / f"{trial.backend}-plain.mp4"))
        trial.mapped.coded.save(own_path(folder / f"{trial.backend}-map.mp4"))
    record = {"trials": [trial.record(motion.moving) for trial in trials]}
    return DemoPart(page.TITLE, page.lead(clip), sections, record, _lines(motion, trials))


def _open(name: str, frames: int) -> Clip:
    from reelrl.content import open_clip

    clip = open_clip(name)
    return clip.window(0, min(frames, clip.frame_count)).load()


def _measure(clip: Clip) -> tuple[Motion, list[Trial]]:
    from reelrl.encode.demo import measure as demo

    motion = demo.find_motion(clip)
    total = len(demo.NAMES) * demo.ENCODES * clip.frame_count
    with Progress("encode", total, unit="frames") as progress:
        trials = [
            demo.measure(backend, clip, motion, lambda name, frames: progress.update(frames, encoder=name))
            for backend in demo.NAMES
        ]
    return motion, trials


def _lines(motion: Motion, trials: Sequence[Trial]) -> list[list[str]]:
    lines: list[list[str]] = []
    for trial in trials:
        ends = (f"{coded.kbps:.0f} kbps {coded.psnr_y:.1f} dB" for coded in (trial.curve[-1], trial.curve[0]))
        lines.append(["curve", f"{trial.name} {trial.version}", " to ".join(ends)])
    for trial in trials:
        change = trial.change(motion.moving)
        lines.append(
            [
                "map",
                trial.name,
                f"moving {change.moving:+.2f} dB",
                f"elsewhere {change.elsewhere:+.2f} dB",
                f"bytes {trial.growth(trial.mapped):+.1f} %",
                f"zero map {trial.growth(trial.zero):+.1f} %",
            ]
        )
    return lines


def stream_part(folder: Path) -> DemoPart:
    from reelrl.stream.demo import measure as demo
    from reelrl.stream.demo import page
    from reelrl.stream.demo.film import write_side_by_side

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
    size = write_side_by_side(own_path(folder / FILM), site, ladder, watchings)
    words = ["reel", "play", str(site), "--controller", *controllers, "--trace", str(link)]
    live = shlex.join([*words, "--buffer", f"{demo.BUFFER_S:g}"])
    lines: list[list[str]] = [["left", each] for each in missing]
    for each in watchings:
        played = each.playback
        facts = f"QoE {played.qoe:.3f}", f"stalled {played.rebuffer_s:.1f} s", f"{played.switches} switches"
        lines.append(["view", played.controller, *facts])
    lines.append(["live", live])
    record = {"viewings": [each.playback.row() for each in watchings]}
    return DemoPart(page.TITLE, page.LEAD, page.sections(watchings, trace, FILM, size, live), record, lines)


def _command(args: argparse.Namespace) -> str:
    """What to type for the same page."""
    words = ["reel", "demo"]
    words += ["--clip", args.clip] if args.clip != CLIP else []
    words += ["--frames", str(args.frames)] if args.frames != FRAMES else []
    words += ["--out", args.out] if args.out != "demo" else []
    words += ["--only", *args.only] if args.only else []
    words += ["--skip", *args.skip] if args.skip else []
    return shlex.join(words)
