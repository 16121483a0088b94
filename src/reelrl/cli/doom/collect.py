"""Record matches: what each player sees, and where everybody truly is, for learning who is where.

reel collect doom --matches 80 -o data/doom                  four players who roam through nine rooms
reel collect doom --matches 8 --map cloister -o data/doom    and a second map, to test retrieval where none was learned
reel collect doom --check data/doom                          compare every file with its checksum
reel collect doom --convert data/doom                        make a folder of an earlier schema one of today

The same command again adds only what is missing. The first map of a folder is the one that places are labels of; its
matches are split into train, val and test, those on other maps are for retrieval.
docs/how-to/record-matches.md has the layout.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from reelrl.cli import options, output
from reelrl.errors import ConfigError
from reelrl.runs.progress import Progress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from reelrl.act.recording.collect import Collected
    from reelrl.act.recording.manifest import RecordingSettings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--matches", type=int, metavar="N", help="how many there shall be on this map, with those already there")
    add("-o", "--output", metavar="DATA", help="the folder, new or of an earlier collection")
    add("--map", default="haunted_rooms", metavar="NAME", help="haunted_rooms, cloister, or any scenario (a .cfg file)")
    add("--players", type=int, default=4, metavar="N", help="in each match, up to 8 (default 4)")
    add("--seconds", type=float, default=40.0, metavar="S", help="of each match (default 40)")
    add(
        "--skip", type=int, default=4, metavar="TICS", help="from one row to the next; 35 tics are a second (default 4)"
    )
    add("--resolution", default="RES_256X192", metavar="NAME", help="of the views (default RES_256X192)")
    add("--squad", type=float, default=0.0, metavar="SHARE", help="of walks that follow the first player (default 0)")
    add("--video", default="av1", help="av1 (small) or lossless (bit for bit) (default av1)")
    options.add_workers(parser, 1, "matches played at the same time")
    add("--check", metavar="DATA", help="read a folder instead, and compare every file with its checksum")
    add("--convert", metavar="DATA", help="bring the manifest of a folder that an earlier version made up to date")
    options.add_seed(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    if args.check:
        return _check(args)
    if args.convert:
        return _convert(args)
    if args.matches is None or args.output is None:
        raise ConfigError("say how many and where to: reel collect doom --matches 80 -o data/doom")
    if args.matches < 1:
        raise ConfigError(f"--matches {args.matches}: give 1 or more")
    from reelrl.act.recording.manifest import RecordingSettings

    names = ("players", "seconds", "skip", "resolution", "video", "squad", "seed")
    return _collect(args, RecordingSettings(**{name: getattr(args, name) for name in names}))


def _collect(args: argparse.Namespace, settings: RecordingSettings) -> int:
    from contextlib import closing

    from reelrl.act.doom.scenarios import find as scenario
    from reelrl.act.recording.collect import Collection
    from reelrl.cli.main import DONE, INTERRUPTED
    from reelrl.parallel import executor
    from reelrl.runs.interrupts import first_interrupt_asks

    # Wrong usage is refused before a folder is made.
    settings.match(args.map)
    scenario.require(args.map)
    start_s = time.monotonic()
    with executor(args.jobs, restarts=2) as work, closing(Collection(args.output, settings)) as collection:
        missing = len(collection.missing(args.map, args.matches))
        output.line("data", args.output, f"map {args.map}", f"{args.matches - missing} of {args.matches} matches there")
        collected = []

        def stop() -> None:
            work.stop()
            output.line("stop", "after the matches being played", "Ctrl+C again ends at once")

        with (
            Progress("match", missing, unit="matches") as progress,
            first_interrupt_asks(stop),
            closing(collection.collect(args.map, args.matches, work)) as matches,
        ):
            for each in matches:
                collected.append(each)
                progress.update(1)
                for reason in each.lost:
                    output.line("again", each.entry.id, reason.splitlines()[0])
                output.line("match", each.entry.id, each.entry.split, f"{each.entry.frames} rows")
        seconds = time.monotonic() - start_s
        left = len(collection.missing(args.map, args.matches))
    if collected:
        _show(collected, settings, seconds)
    if args.json:
        made = [{"id": each.entry.id, "split": each.entry.split, "rows": each.entry.frames} for each in collected]
        output.as_json({"data": args.output, "matches": made, "missing": left, "seconds": seconds})
    if left:
        output.line("stopped", f"{left} matches are missing", "the same command goes on")
        return INTERRUPTED
    output.next_command(f"reel collect doom --check {args.output}")
    return DONE


def _show(collected: Sequence[Collected], settings: RecordingSettings, seconds: float) -> None:
    from reelrl.act.recording.collect import describe

    rows = sum(each.entry.frames for each in collected)
    size = sum(facts.bytes for each in collected for facts in each.entry.files.values())
    output.line(
        "done",
        f"{len(collected)} matches",
        f"{rows} moments x {settings.players} views",
        f"{size / 1e6:.1f} MB",
        f"{seconds:.0f} s",
        f"{rows * settings.skip / seconds:.0f} tics/s",
        f"{len(collected) / seconds * 60:.1f} matches/min",
    )
    for word, values in describe(collected[0].plan, [each.labels for each in collected]).items():
        output.line("seen", word, values)


def _check(args: argparse.Namespace) -> int:
    from reelrl.act.recording.reader import MatchData
    from reelrl.cli.main import DONE

    folder = args.check
    data = MatchData.open(folder)
    files = list(data.check())
    size = sum(path.stat().st_size for path in files)
    by_split: dict[str, int] = {}
    for match in data.matches:
        by_split[match.split] = by_split.get(match.split, 0) + 1
    counts = [f"{count} {split}" for split, count in by_split.items()]
    output.line("data", folder, f"{len(data.matches)} matches ({', '.join(counts)})", f"{size / 1e6:.1f} MB")
    output.line("files", len(files), "all as they were written")
    if args.json:
        output.as_json({"data": folder, "matches": by_split, "files": len(files), "size_bytes": size})
    if {"train", "val"} <= by_split.keys():
        output.next_command(f"reel train frame-reader {folder}")
    return DONE


def _convert(args: argparse.Namespace) -> int:
    from pathlib import Path

    from reelrl.act.recording.manifest import SCHEMA, convert
    from reelrl.cli.main import DONE

    folder = args.convert
    before = convert(Path(folder))
    if args.json:
        output.as_json({"data": folder, "schema_before": before, "schema": SCHEMA})
    if before == SCHEMA:
        output.line("data", folder, f"schema {SCHEMA} already", "nothing to convert")
    else:
        output.line(
            "data", folder, f"schema {before} to {SCHEMA}", f"the former manifest is manifest.schema-{before}.json"
        )
        output.line("note", "bodies wear no colours of their own", "a frame reader cannot learn who is who from them")
    output.next_command(f"reel collect doom --check {folder}")
    return DONE
