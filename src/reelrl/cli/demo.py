"""A tour in parts, and one page to look at.

reel demo                                  all parts, a few minutes
reel demo --only encode                    one of them; --skip leaves some out; doom stands for act and locate
reel demo --clip film.mkv --frames 90      the part on encoding for a clip of yours

encode   Both encoders code the clip at several QPs. Then each gets a map of QP offsets that favours the superblocks
         where something moves, and a base QP that brings it back to the size without a map, so that the two can be
         compared.
rate     A clip with cuts under one bitrate: the encoder's own rate control beside ours.
stream   One video over one bad network with three controllers: a film of what each viewer saw, on one clock.
see      An autoencoder watches a game for a minute and learns from each frame once.
act      A trained team plays a match of Doom: a film of what its players see, and of where everybody is.
locate   Another match, of four players: what they see, where everybody is, and where a net thinks they are.

A part that is finished is not made again, and stays on the page whatever is made next; --again makes it anew.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from reelrl import __version__, names
from reelrl.cli import options, output
from reelrl.errors import ConfigError, MissingExtra, ReelError, missing_extra
from reelrl.runs.progress import duration
from reelrl.storage.files import writable_folder, write_atomic
from reelrl.storage.regular_files import own_path

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from reelrl.report.demo_part import DemoOptions, DemoPart
    from reelrl.report.page import Html

PARTS = tuple(names.DEMO_PARTS)
TOGETHER = {"doom": ("act", "locate")}
"""Words that stand for several parts."""
USUAL_S = {"encode": 15, "rate": 10, "stream": 20, "see": 45, "act": 10, "locate": 20}
"""What each part takes on two idle cores, about; how slow this machine is shows in the parts before."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_json(parser)
    parser.add_argument("-o", "--out", metavar="FOLDER", default="demo", help="where the page goes (default: demo)")
    parser.add_argument("--clip", help="for `encode`: a name from `reel clips`, a recipe or a file (default: a street)")
    parser.add_argument("--frames", type=int, metavar="N", help="for `encode`: frames at most (default: 60)")
    words = (*PARTS, *TOGETHER)
    parser.add_argument("--only", nargs="+", choices=words, metavar="PART", help=f"of {', '.join(words)}")
    parser.add_argument("--skip", nargs="+", choices=words, default=[], metavar="PART", help="leave these out")
    parser.add_argument("--again", action="store_true", help="make finished parts anew")


def run(args: argparse.Namespace) -> int:
    from reelrl.content.sources import open_clip
    from reelrl.report.demo_part import CLIP, FRAMES, DemoOptions
    from reelrl.report.page import chapter, page

    skipped = _each(args.skip)
    parts = [name for name in _each(args.only or PARTS) if name not in skipped]
    if not parts:
        raise ConfigError("--only and --skip leave no part of the demo; name one fewer with --skip")
    asked = DemoOptions(args.clip or CLIP, FRAMES if args.frames is None else args.frames)
    if asked.frames < 1:
        raise ConfigError(f"--frames {asked.frames}; give 1 or more")
    open_clip(asked.clip)  # a name that is none is told before minutes of other parts
    folder = writable_folder(args.out)
    made, missing = _made(parts, folder, asked, again=args.again)
    shown = _with_finished(made, folder, asked, leave_out={*missing, *skipped})
    first = next(iter(shown.values()))
    document = page(
        first.title,
        first.lead,
        [chapter(name, part.sections) for name, part in shown.items()] + [_left_out(*each) for each in missing.items()],
        kicker=f"reelrl {__version__}",
        foot="Made by reel demo. No figure on this page was typed in by hand.",
        contents=[(name, part.title) for name, part in shown.items()][1:],
    )
    # The videos are there by now: whoever finds a page finds a whole one.
    path = own_path(folder / "index.html")
    write_atomic(path, document)
    if args.json:
        record: dict[str, Any] = {"page": str(path), "left_out": {name: str(why) for name, why in missing.items()}}
        output.as_json(record | {key: value for part in made.values() for key, value in part.record.items()})
    else:
        for name, why in missing.items():
            output.line("left", name, " ".join(str(why).splitlines()))
        output.line("page", path, "open it in a browser")
        output.next_command("reel clips")
    # A package that is not installed is no fault; its part says which one.
    return 1 if any(not isinstance(why, MissingExtra) for why in missing.values()) else 0


def _made(
    parts: Sequence[str], folder: Path, asked: DemoOptions, *, again: bool
) -> tuple[dict[str, DemoPart], dict[str, ReelError]]:
    """The parts that could be made, and why the others could not; one at least, or the first reason is raised."""
    from reelrl.report.demo_part import finished_part, made_part

    made: dict[str, DemoPart] = {}
    missing: dict[str, ReelError] = {}
    finished = {} if again else {name: part for name in parts if (part := finished_part(name, folder, asked))}
    pace = _Pace([name for name in parts if name not in finished])
    for number, name in enumerate(parts, 1):
        part = finished.get(name)
        output.line("part", name, f"{number} of {len(parts)}", "made before" if part else pace.left())
        try:
            part = part or made_part(name, folder, asked, names.resolve(names.DEMO_PARTS, name))
        except ReelError as error:
            missing[name] = error
        except ModuleNotFoundError as error:
            if (extra := missing_extra(error)) is None:
                raise
            missing[name] = extra
        else:
            made[name] = part
            for line in part.lines:
                output.line(*line)
    if not made:
        raise next(iter(missing.values()))
    return made, missing


def _with_finished(
    made: dict[str, DemoPart], folder: Path, asked: DemoOptions, leave_out: set[str]
) -> dict[str, DemoPart]:
    """What was made, and what an earlier tour left here: making one part again takes no other off the page."""
    from reelrl.report.demo_part import finished_part

    found = {name: made.get(name) or finished_part(name, folder, asked) for name in PARTS if name not in leave_out}
    return {name: part for name, part in found.items() if part}


class _Pace:
    """How long the parts that are still to be made will take, by what those before took here."""

    def __init__(self, parts: Sequence[str]) -> None:
        self._waiting, self._usual_s, self._began_s = list(parts), 0.0, time.monotonic()

    def left(self) -> str:
        """The next part begins."""
        here = max(time.monotonic() - self._began_s, 1e-3) / self._usual_s if self._usual_s else 1.0
        left_s = here * sum(USUAL_S[name] for name in self._waiting)
        self._usual_s += USUAL_S[self._waiting.pop(0)]
        return f"about {duration(left_s)} left"


def _each(words: Sequence[str]) -> list[str]:
    named = {name for word in words for name in TOGETHER.get(word, (word,))}
    return [name for name in PARTS if name in named]


def _left_out(name: str, why: ReelError) -> Html:
    from reelrl.report.page import section

    return section(f"Left out: {name}", f"{why}. Then: reel demo --only {name}")
