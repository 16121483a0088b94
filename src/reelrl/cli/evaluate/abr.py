"""Compare bitrate controllers on traces they have not seen.

reel evaluate abr                                       every built-in controller
reel evaluate abr runs/0007 robustmpc oracle            these
reel evaluate abr "ppo=runs/0001,runs/0002" robustmpc   two trainings as one line, averaged trace by trace
reel evaluate abr --traces my/traces --ladder ladder.json --ladder other.json
reel evaluate abr --every-set                           one table over all sets at hand
reel evaluate abr pensieve-ppo=nn_model_ep_155400.pth robustmpc     Pensieve-PPO's released weights

Traces: REELRL_DATA's test traces, else generated ones. Writes sessions.csv, summary.json and index.html; --every-set
writes these for each set, and sets.md and sets.json over all of them.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelrl.cli import options, output
from reelrl.errors import ConfigError
from reelrl.names import did_you_mean
from reelrl.storage.regular_files import own_path

if TYPE_CHECKING:
    import argparse

    from reelrl.stream.data.ladders import Ladder
    from reelrl.stream.data.traces import Trace
    from reelrl.stream.evaluate import Contestant, EvaluationPlan, SummaryRow

DEFAULT_CONTROLLERS = (
    "lowest",
    "rate",
    "hyb",
    "bba",
    "bola",
    "bola-e",
    "dashjs",
    "l2a",
    "mpc",
    "robustmpc",
    "fugu",
    "comyco",
    "ppo",
    "scalefree",
    "oracle",
)

REFERENCE = "robustmpc"

TEST_RUNS = "test-runs.jsonl"
"""The log of looks at test traces, beside the results."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("controllers", nargs="*", help="names, run folders, or name=run,run for several seeds")
    parser.add_argument("--traces", action="append", metavar="PATH", help="a trace file or folder; may be repeated")
    parser.add_argument(
        "--every-set", action="store_true", help="test sets, what is held out of training sets, generated links"
    )
    parser.add_argument("--ladder", action="append", metavar="PATH", help="a ladder file or folder; may be repeated")
    parser.add_argument(
        "--reference", metavar="NAME", help=f"compare with this one (default {REFERENCE}, where it plays)"
    )
    parser.add_argument("--qoe", default="linear", help="linear, scaled, log, hd, vmaf, psnr or ssim")
    parser.add_argument("--default-rule", action="store_true", help="our simulator instead of Pensieve's")
    parser.add_argument(
        "--buffer", type=float, metavar="S", help="how far ahead players download (default 60; live: a few seconds)"
    )
    parser.add_argument("--noise", action="store_true", help="vary download times by 10 percent")
    options.add_workers(parser)
    parser.add_argument("-o", "--out", default="runs/evaluate-abr", metavar="FOLDER", help="where results go")
    parser.add_argument("--note", default="", help="a word for the log of runs on test traces")
    parser.add_argument(
        "--log-run",
        type=Path,
        metavar="FILE",
        help=f"log a run on test traces there too, not only in {TEST_RUNS} of --out",
    )
    options.add_seed(parser)
    options.add_json(parser)


@output.warnings_as_notes()
def run(args: argparse.Namespace) -> int:
    from reelrl.storage.files import writable_folder
    from reelrl.stream import evaluate as abr
    from reelrl.stream.data.ladders import read_ladder
    from reelrl.stream.data.pools import data_folder

    if args.every_set and args.traces:
        raise ConfigError(f"--every-set looks for sets itself, and --traces is {args.traces[0]}; give one of the two")
    folder = writable_folder(args.out)
    contestants = [abr.Contestant.parse(text) for text in args.controllers or _available()]
    ladders = [read_ladder(path) for path in args.ladder or [data_folder("videos/envivio") or "nominal"]]
    reference = _reference(args.reference, [contestant.name for contestant in contestants])
    if args.every_set:
        return _every_set(args, folder, contestants, ladders, reference)
    lines, facts = _evaluated(args, folder, *_traces(args.traces), contestants, ladders, reference)
    if args.json:
        output.as_json({"facts": facts, "lines": [abr.as_record(line) for line in lines]})
    else:
        print(abr.table(lines, reference))
        output.line("page", folder / "index.html", "open it in a browser")
    return 0


def _every_set(
    args: argparse.Namespace, folder: Path, contestants: list[Contestant], ladders: list[Ladder], reference: str | None
) -> int:
    """Each set for itself, then one table over all."""
    import json
    import re

    from reelrl.storage.files import writable_folder, write_atomic
    from reelrl.stream import evaluate as abr
    from reelrl.stream.data.pools import evaluation_sets

    found: dict[str, list[SummaryRow]] = {}
    for label, traces in evaluation_sets().items():
        part = writable_folder(own_path(folder / re.sub(r"[^\w.-]+", "-", label)))
        found[label], _ = _evaluated(args, part, traces, label, contestants, ladders, reference)
        print(f"{label}: {len(traces)} traces\n{abr.table(found[label], reference)}\n", flush=True)
    records = {label: [abr.as_record(line) for line in lines] for label, lines in found.items()}
    write_atomic(own_path(folder / "sets.json"), json.dumps(records, indent=1) + "\n")
    write_atomic(own_path(folder / "sets.md"), abr.markdown(found, reference))
    if args.json:
        output.as_json(records)
    else:
        output.line("table", folder / "sets.md")
    return 0


def _evaluated(
    args: argparse.Namespace,
    folder: Path,
    traces: list[Trace],
    label: str,
    contestants: list[Contestant],
    ladders: list[Ladder],
    reference: str | None,
) -> tuple[list[SummaryRow], dict[str, Any]]:
    """One set: played, summed up, written, drawn, and logged if it is a test set."""
    from reelrl.stream import evaluate as abr

    how = abr.EvaluationPlan(None if args.default_rule else "pensieve", args.noise, args.qoe, args.seed, args.buffer)
    # A few hundred sessions take seconds; starting processes takes longer.
    sessions = len(traces) * len(ladders) * sum(len(contestant.members) for contestant in contestants)
    played = abr.play_all(contestants, traces, ladders, how, args.jobs if sessions > 3000 else 1)
    lines = abr.summarise(contestants, played, reference)
    facts = {
        "traces": len(traces),
        "source": label,
        "videos": [ladder.name for ladder in ladders],
        "sessions": sessions,
        "qoe": args.qoe,
        "rule": how.preset or "default",
        "noise": how.noise,
        "buffer_s": "" if how.buffer_s is None else how.buffer_s,
        "seed": how.seed,
        "command": shlex.join(["reel", *sys.argv[1:]]),
        "note": args.note,
    }
    abr.write_records(folder, lines, played, facts)
    _draw(folder, lines, reference, facts, contestants, played, traces, ladders, how)
    _log_test_run(folder, args.log_run, traces, facts, lines)
    return lines, facts


def _reference(asked: str | None, names: list[str]) -> str | None:
    if asked is not None and asked not in names:
        raise ConfigError(f"--reference {asked} is not among those compared{did_you_mean(asked, names)}")
    return asked or (REFERENCE if REFERENCE in names else None)


def _available() -> list[str]:
    """The built-in controllers; those that are trained only where their weights are shipped."""
    from reelrl.stream.controllers.weights import COMYCO, FUGU, SCALE_FREE, SHIPPED

    weights = {"ppo": SHIPPED, "scalefree": SCALE_FREE, "fugu": FUGU, "comyco": COMYCO}
    return [name for name in DEFAULT_CONTROLLERS if name not in weights or weights[name].exists()]


def _traces(given: list[str] | None) -> tuple[list[Trace], str]:
    from reelrl.seeding import stream
    from reelrl.stream.data.pools import data_folder, generated_pool
    from reelrl.stream.data.traces import read_traces

    if given:
        held_out = any("test" in Path(path).resolve().parts for path in given)
        return read_traces(given), ("test: " if held_out else "") + " ".join(Path(path).name for path in given)
    found = data_folder("traces/test")
    if found is not None:
        return read_traces(found), "test: " + " ".join(path.name for path in sorted(found.iterdir()))
    return generated_pool(stream(1, "abr", "evaluation"), 60), "60 generated, 40 percent with outages"


def _draw(
    folder: Path,
    lines: Any,
    reference: str | None,
    facts: dict[str, Any],
    contestants: list[Contestant],
    played: Any,
    traces: list[Trace],
    ladders: list[Ladder],
    how: EvaluationPlan,
) -> None:
    from reelrl.stream.evaluate import scores
    from reelrl.stream.page import write_page
    from reelrl.stream.playback import load_bitrate_controller, play

    counts = {contestant.name: len(contestant.members) for contestant in contestants}
    values = {line.title: scores(played[line.name], counts[line.name]) for line in lines}
    best = next((line.name for line in lines if not line.privileged), lines[0].name)
    shown = {best, reference or best}
    sessions = []
    for contestant in (each for each in contestants if each.name in shown):
        found = [playback.qoe for playback in played[contestant.name][: len(traces)]]
        middle = traces[sorted(range(len(found)), key=found.__getitem__)[len(found) // 2]]
        session = play(
            load_bitrate_controller(contestant.members[0]),
            middle,
            ladders[0],
            name=contestant.name,
            seed=how.seed,
            preset=how.preset,
            noise=how.noise,
            qoe=how.qoe,
            buffer_s=how.buffer_s,
            timeline=True,
        )
        sessions.append((session, middle))
    write_page(own_path(folder / "index.html"), lines, reference, facts, values, sessions)


def _log_test_run(folder: Path, log_file: Path | None, traces: list[Trace], facts: dict[str, Any], lines: Any) -> None:
    """Every look at test traces leaves a line: who was tried, when, with what result.

    Beside the results, and in a log that somebody keeps of all looks (`--log-run`): whoever chooses by test traces
    should see how often.
    """
    import hashlib
    from datetime import UTC, datetime

    from reelrl.runs.records import Log
    from reelrl.stream.evaluate import as_record

    if not str(facts["source"]).startswith("test: "):
        return
    digest = hashlib.sha256(b"".join(trace.bytes_per_s.tobytes() for trace in traces)).hexdigest()[:16]
    when = datetime.now(UTC).isoformat(timespec="seconds")
    short = [{key: as_record(line)[key] for key in ("name", "qoe", "median", "p10", "paired")} for line in lines]
    for path in (own_path(folder / TEST_RUNS), *([log_file] if log_file else [])):
        log = Log(path)
        log.append({"time": when, "traces_sha256": digest, **facts, "lines": short})
        log.close()
