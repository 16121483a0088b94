"""Compare superblock maps by BD-rate, on clips of sources that nothing was trained on.

reel evaluate superblock                                       heuristics and the encoder's own modes
reel evaluate superblock --controllers moving.yaml runs/0007   a fitted policy and a trained run besides
reel evaluate superblock --only mine=policy.yaml --clips film.mkv generated:talk
reel evaluate superblock --backend svtav1 --qps 24,32,40,48,56

Controllers are names (variance-map(0.5)), policies of `reel fit superblock`, run folders, "package.module:Class", or
modes of the encoder itself (crf:aq-mode=3). Encodes are cached: a killed evaluation goes on where it stood. Writes
points.csv, clips.csv, summary.json and index.html.
"""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any

from reelrl import names
from reelrl.cli import options, output
from reelrl.storage.regular_files import own_path

if TYPE_CHECKING:
    import argparse

    from reelrl.content.clip import Clip
    from reelrl.encode.superblock.evaluate import MapContestant


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--controllers", nargs="+", default=[], metavar="WHAT", help="besides the usual ones")
    parser.add_argument("--only", nargs="+", metavar="WHAT", help="these, and nobody else but their anchors")
    parser.add_argument("--backend", default="aom", help=f"{' or '.join(names.BACKENDS)} (default aom)")
    parser.add_argument("--preset", type=int, default=10, help="the encoder's speed preset (default 10)")
    parser.add_argument("--clips", nargs="+", metavar="CLIP", help="names, recipes or files; default: those of --split")
    parser.add_argument("--split", default="test", help="test (default) or train")
    parser.add_argument("--qps", default="28,36,44,52", help="four or more (default 28,36,44,52)")
    parser.add_argument("--frames", type=int, default=30, metavar="N", help="of each clip (default 30)")
    parser.add_argument("--method", default="pchip", help="between points: pchip (default) or akima")
    parser.add_argument("--no-vmaf", action="store_true", help="leave VMAF out, which takes a third of the time")
    options.add_jobs(parser)
    parser.add_argument("--out", default="runs/evaluate-superblock", metavar="FOLDER", help="where results go")
    options.add_seed(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from reelrl.encode import capabilities
    from reelrl.encode.codecs.settings import EncoderSettings
    from reelrl.encode.superblock import evaluate as superblock
    from reelrl.encode.superblock import page as superblock_page
    from reelrl.encode.superblock import summary as superblock_summary
    from reelrl.encode.superblock.measure import CHEAP
    from reelrl.report.verdicts import verdicts
    from reelrl.storage.files import writable_folder

    folder = writable_folder(args.out)  # before the encodes: they should not end at a folder that refuses them
    contestants = _contestants(args)
    metrics = (*CHEAP, "vmaf") if not args.no_vmaf and _has_vmaf() else CHEAP
    plan = superblock.SuperblockEvaluationPlan(
        qps=options.numbers("--qps", args.qps),
        frames=args.frames,
        metrics=metrics,
        # Every picture at exactly the point's QP: the map is then all that differs from the anchor.
        encoder=EncoderSettings(backend=args.backend, preset=args.preset, picture_qp=True),
        seed=args.seed,
    )
    clips = _clips(args)
    points = superblock.encode_all(contestants, clips, plan, args.jobs)
    results = superblock_summary.clip_results(contestants, points, metrics, args.method)
    # Intervals over clips: the question is what happens on the next clip, and the QPs of one clip err together.
    summary = verdicts(results)
    facts: dict[str, Any] = {
        "clips": len(clips),
        "names": [clip.name for clip in clips],
        "frames": plan.frames,
        "qps": args.qps,
        "encoder": f"{args.backend} {capabilities(args.backend).version}, preset {args.preset}, "
        "low delay, one key frame",
        "metrics": list(metrics),
        "method": args.method,
        "seed": args.seed,
        "cpu_s": round(sum(point.measured.seconds for point in points), 1),
        "command": shlex.join(["reel", *sys.argv[1:]]),
    }
    superblock_summary.write_records(folder, points, results, summary, facts)
    superblock_page.write_page(own_path(folder / "index.html"), points, results, summary, facts)
    if args.json:
        output.as_json({"facts": facts, "verdicts": [each.record() for each in summary]})
    else:
        print(superblock_summary.table(summary, metrics))
        output.next_command(f"open {folder / 'index.html'}")
    return 0


def _contestants(args: argparse.Namespace) -> list[MapContestant]:
    from reelrl.encode import capabilities
    from reelrl.encode.superblock.evaluate import HEURISTICS, MapContestant

    usual = [*HEURISTICS, *capabilities(args.backend).own_modes]
    return [MapContestant.parse(text) for text in args.only or [*usual, *args.controllers]]


def _clips(args: argparse.Namespace) -> list[Clip]:
    from reelrl.content.sources import open_clip
    from reelrl.encode.clip_choice import split_clips

    return [open_clip(name) for name in args.clips] if args.clips else split_clips(args.split)


def _has_vmaf() -> bool:
    from reelrl.content.quality import vmaf_program
    from reelrl.errors import ReelError

    try:
        vmaf_program()
    except ReelError:
        return False
    return True
