"""Judge quality targets on sources that the model has not seen, beside two reference searchers.

reel evaluate target runs/0007                  probes and encodes are made for it, every frame is scored
reel evaluate target runs/0007 --measured       read off the curves of the run instead: seconds, and near enough to tune
reel evaluate target runs/0007 --preset 8 --targets 2
reel evaluate target runs/0007 --ray auto       sources side by side on a cluster

RUN is of `reel train target`: its scenes are judged, and the model is fitted anew for each source, without it. Writes
scenes.csv and summary.json.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from reelrl.cli import options, output

if TYPE_CHECKING:
    import argparse

    from reelrl.encode.target.laboratory import Laboratory


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="a run of `reel train target`")
    add("--measured", action="store_true", help="make no encodes: read scores and costs off the run's own curves")
    add("--encode-references", action="store_true", help="make the reference searchers' encodes too: some hours")
    add("--preset", type=int, nargs="+", default=[8, 4], choices=(8, 4), help="of the encodes (default 8 4)")
    add("--target", default="vmaf", metavar="METRIC[,POOL]", help="what is to be met (default vmaf)")
    add("--targets", type=int, default=1, metavar="N", help="of each scene and preset, from 70 to 97 (default 1)")
    add("--out", default="evaluation-target", metavar="FOLDER", help="default evaluation-target")
    options.add_workers(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from reelrl.encode.target.evaluate import TargetPlan, judge, summary
    from reelrl.encode.target.goal import QualityTarget
    from reelrl.encode.target.train import TargetTraining, read_lessons
    from reelrl.errors import ConfigError
    from reelrl.parallel import executor
    from reelrl.report import records
    from reelrl.runs.folder import RunFolder
    from reelrl.runs.progress import Progress
    from reelrl.storage.files import writable_folder

    if len(args.runs) > 1:
        raise ConfigError(f"{len(args.runs)} runs; each judges itself on its own scenes: give one")
    folder = writable_folder(args.out)
    run_folder = RunFolder(args.runs[0])
    settings, lessons = run_folder.settings(TargetTraining), read_lessons(run_folder)
    if not lessons:
        raise ConfigError(
            f"{run_folder.folder} has measured no scene yet; go on with: reel train target --resume {args.runs[0]}"
        )
    metric, _, pool = args.target.partition(",")
    plan = TargetPlan(
        presets=tuple(args.preset),
        metric=metric,
        pool=pool or "mean",
        targets=args.targets,
        fit=settings.fit,
        encode_references=args.encode_references,
    )
    outcomes = []
    laboratory = _laboratory(settings, lessons, measured=args.measured)
    with Progress("judge", unit="searches") as progress, executor(args.jobs) as work:
        for outcome in judge(lessons, plan, laboratory, work=work):
            outcomes.append(outcome)
            progress.update()
    rows = summary(outcomes, QualityTarget(metric, 90 if metric == "vmaf" else 40, plan.pool).near)
    facts: dict[str, Any] = {
        "run": str(run_folder.folder),
        "encodes": "none" if args.measured else "made",
        "sources": sorted({each.source for each in outcomes}),
        "target": args.target,
    }
    tables = {"scenes": [asdict(each) | {"miss": each.miss} for each in outcomes]}
    records.write(folder, tables, {"searchers": rows}, facts)
    if args.json:
        output.as_json({"searchers": rows, **facts})
        return 0
    for row in rows:
        output.line(
            f"{row['searcher']}",
            f"preset {row['preset']}",
            f"{row['scenes']} scenes",
            f"within {100 * row['within']:.1f} %",
            f"{row['mean_miss']:.2f} off on average",
            f"{row['probes']:.2f} probes",
            f"{row['cpu_ratio']:.2f} x the encode",
        )
    output.line("wrote", folder / "scenes.csv", folder / "summary.json")
    return 0


def _laboratory(settings: Any, lessons: list[Any], *, measured: bool) -> Laboratory:
    from reelrl.encode.target.laboratory import MeasuredCurves, RealEncodes
    from reelrl.encode.target.scenes import scenes_of, videos_in

    if measured:
        return MeasuredCurves()
    scenes = {s.name: s for video in videos_in(settings.videos) for s in scenes_of(video, settings.scenes)}
    return RealEncodes({lesson.name: scenes[lesson.name] for lesson in lessons})
