"""Compare live coding, one frame in and one QP out, with the encoder's own cbr: late frames, rates, BD-rates.

reel evaluate live                                      the rule and the learned predictor on the test sets
reel evaluate live --split development                  the clips that everything was made on
reel evaluate live --only rule learned+twice --sets cuts screen --buffers 0.5
reel evaluate live --traces link.json --only rule learned     what a viewer gets where the rate of the link changes
reel evaluate live --only net.safetensors --clips generated:talk 'shaken(film.mkv)'

Contestants: rule, learned, a file of `reel fit live`; +drop leaves out frames that would be late at any QP, +twice
codes frames afresh once by themselves to know what they take, +qps leaves no stream to the encoder's own cbr. Writes
points.csv, clips.csv, summary.json, index.html.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelrl.cli import options, output
from reelrl.cli.evaluate import bd_rates
from reelrl.storage.regular_files import own_path

if TYPE_CHECKING:
    import argparse

    from reelrl.encode.live.evaluate import LiveEvaluationPlan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--only", nargs="+", metavar="WHO", help="these, and nobody else but cqp and cbr")
    add("--split", choices=("test", "development"), default="test", help="whose sets (default test)")
    add("--sets", nargs="+", metavar="SET", help="some of steady, cuts, screen, shake (default: all)")
    add(
        "--clips", nargs="+", metavar="CLIP", help="these instead: names, recipes, files, shaken(NAME), NAME[0:50], A+B"
    )
    add("--qps", default="28,36,44,52", help="of the cqp encodes that rates come from")
    add("--buffers", default="0.5,1", metavar="S,S", help="seconds (default 0.5,1)")
    add("--backend", default="svtav1", help="svtav1 (default), or aom: libaom's real-time mode, with the rule")
    add("--preset", type=int, help="the encoder's speed preset (default 10; 9 for aom)")
    add(
        "--traces", nargs="+", metavar="FILE", help="over these links instead, scaled to the rate of each clip at QP 40"
    )
    add("--method", default="pchip", help="between points: pchip (default) or akima")
    options.add_workers(parser)
    add("--out", default="runs/evaluate-live", metavar="FOLDER", help="where results go")
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from reelrl.encode import capabilities
    from reelrl.encode.live import evaluate, page, summary
    from reelrl.storage.files import writable_folder

    folder = writable_folder(args.out)
    plan = _plan(args)
    if args.traces:
        return _over_links(args, plan, folder)
    points = evaluate.encode_all(args.only or evaluate.DEFAULT[args.backend], plan, args.jobs)
    results = summary.clip_results(points, args.method)
    rows = summary.rows_of(points, results)
    able = capabilities(plan.encoder.backend)
    args.seed = 0  # nothing here is left to chance
    facts: dict[str, Any] = {
        "sets": {kind: [name for name in plan.clips if plan.clips[name] == kind] for kind in set(plan.clips.values())},
        "encoder": f"{able.title} {able.version}, preset {plan.encoder.preset}, low delay, mini-GOPs of "
        f"{2**plan.tuning.levels}, 1 thread, key frames at the start and where a controller asks",
        "buffers": args.buffers,
        **bd_rates.facts(args, summary.METRICS, sum(point.cpu_s for point in points)),
    }
    page.write_page(own_path(folder / "index.html"), rows, results, facts)
    concluded = {"rows": [row.record() for row in rows]}
    return bd_rates.hand_over(args, folder, {"points": points, "clips": results}, concluded, facts, summary.table(rows))


def _over_links(args: argparse.Namespace, plan: LiveEvaluationPlan, folder: Path) -> int:
    from reelrl.encode.live import evaluate, over_link
    from reelrl.encode.live.link import Uplink
    from reelrl.parallel import executor
    from reelrl.report import records
    from reelrl.runs.progress import Progress
    from reelrl.stream.data.traces import read_trace

    contestants = [evaluate.CBR, *(args.only or ("rule", "rule+drop"))]
    links = [(Path(file).stem, read_trace(file)) for file in args.traces]
    tasks = [
        (clip, name, Uplink(tuple(trace.edges_s.tolist()), tuple(trace.kbps.tolist())), contestants, buffer_s)
        for buffer_s in plan.buffers
        for clip in plan.clips
        for name, trace in links
    ]
    watched: list[over_link.LiveViewing] = []
    with Progress("watch", len(tasks), unit="clips") as progress, executor(args.jobs) as work:
        for batch in work.map(over_link.watch, tasks, name=lambda task: f"{task[0]} over {task[1]}"):
            watched += batch
            progress.update()
    rows = [each.row() for each in watched]
    records.write(folder, {"viewings": rows}, {"viewings": rows}, {"traces": args.traces, "buffers": args.buffers})
    output.as_json(rows) if args.json else print(over_link.table(watched))
    return 0


def _plan(args: argparse.Namespace) -> LiveEvaluationPlan:
    from reelrl.encode.live.clips import DEVELOPMENT, TEST
    from reelrl.encode.live.evaluate import LiveEvaluationPlan
    from reelrl.errors import ConfigError
    from reelrl.names import did_you_mean

    known = TEST if args.split == "test" else DEVELOPMENT
    for name in args.sets or ():
        if name not in known:
            raise ConfigError(f"unknown set {name!r}{did_you_mean(name, known)}")
    sets = {"clips": tuple(args.clips)} if args.clips else {name: known[name] for name in args.sets or known}
    try:
        buffers = tuple(float(each) for each in args.buffers.split(","))
    except ValueError:
        raise ConfigError(f"--buffers {args.buffers}; give seconds, such as 0.5,1") from None
    if min(buffers) <= 0:
        raise ConfigError(f"--buffers {args.buffers}; a buffer holds some time, such as 0.5")
    return LiveEvaluationPlan(sets, options.numbers("--qps", args.qps), buffers, args.backend, args.preset)
