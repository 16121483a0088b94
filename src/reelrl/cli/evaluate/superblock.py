"""Compare superblock maps by BD-rate, on clips of sources that nothing was trained on.

reel evaluate superblock                                       heuristics and the encoder's own modes
reel evaluate superblock --controllers moving.yaml runs/0007   a fitted policy and a trained run besides
reel evaluate superblock --only mine=policy.yaml --clips film.mkv generated:talk
reel evaluate superblock --backend svtav1 --qps 24,32,40,48,56
reel evaluate superblock --frames 1 --windows 4 --only text.yaml crf:tune=iq --against crf:tune=iq    still pictures

Controllers are names (variance-map(0.5)), policies of `reel fit superblock`, run folders, "package.module:Class", or
modes of the encoder itself (crf:aq-mode=3). Encodes are cached: a killed evaluation goes on where it stood. Writes
points.csv, clips.csv, summary.json and index.html.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reelrl import names
from reelrl.cli import options
from reelrl.cli.evaluate import bd_rates
from reelrl.errors import ConfigError
from reelrl.storage.regular_files import own_path

if TYPE_CHECKING:
    import argparse

    from reelrl.content.clip import Clip
    from reelrl.encode.superblock.contestants import MapContestant


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--backend", default="aom", help=f"{' or '.join(names.BACKENDS)} (default aom)")
    bd_rates.add_arguments(
        parser,
        "superblock",
        preset=10,
        frames=30,
        qps="28,36,44,52",
        qps_help="four or more (default 28,36,44,52)",
        clips_help="names, recipes or files; default: those of --split",
        split_help="test (default) or train",
    )
    parser.add_argument(
        "--weights", nargs="+", default=[], metavar="NAME", help="also PSNR weighted by these: saliency, text"
    )
    parser.add_argument(
        "--windows", type=int, default=1, metavar="N", help="of so many frames, spread over each clip (default 1)"
    )
    parser.add_argument("--against", nargs="+", default=[], metavar="WHO", help="compare everybody with each of these")
    parser.add_argument("--no-vmaf", action="store_true", help="leave VMAF out, which takes a third of the time")


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
    contestants = superblock.with_anchors(_contestants(args), args.frames > 1)
    known = [each.name for each in contestants]
    for name in args.against:
        if name not in known:
            raise ConfigError(f"--against {name}: no contestant; they are {', '.join(known)}")
    weighed = tuple(f"weighted:{name}" for name in args.weights if f"weighted:{name}" not in CHEAP)
    metrics = (*CHEAP, *weighed, *(("vmaf",) if not args.no_vmaf and _has_vmaf() else ()))
    plan = superblock.SuperblockEvaluationPlan(
        qps=options.numbers("--qps", args.qps),
        frames=args.frames,
        windows=args.windows,
        metrics=metrics,
        # Every picture at exactly the point's QP: the map is then all that differs from the anchor.
        encoder=EncoderSettings(backend=args.backend, preset=args.preset, picture_qp=True),
        seed=args.seed,
    )
    clips = _clips(args)
    points = superblock.encode_all(contestants, clips, plan, args.jobs)
    results = superblock_summary.clip_results(contestants, points, metrics, args.method, args.against)
    # Intervals over clips: the question is what happens on the next clip, and the QPs of one clip err together.
    summary = verdicts(results)
    facts: dict[str, Any] = {
        "clips": len(clips),
        "names": [clip.name for clip in clips],
        "frames": plan.frames,
        "windows": plan.windows,
        "encoder": f"{args.backend} {capabilities(args.backend).version}, preset {args.preset}, "
        "low delay, one key frame",
        **bd_rates.facts(args, metrics, sum(point.measured.seconds for point in points)),
    }
    superblock_page.write_page(own_path(folder / "index.html"), points, results, summary, facts)
    concluded = {"verdicts": [each.record() for each in summary]}
    text = superblock_summary.table(summary, metrics)
    return bd_rates.hand_over(args, folder, {"points": points, "clips": results}, concluded, facts, text)


def _contestants(args: argparse.Namespace) -> list[MapContestant]:
    from reelrl.encode import capabilities
    from reelrl.encode.superblock.contestants import HEURISTICS, MapContestant

    default = [*HEURISTICS, *capabilities(args.backend).own_modes]
    return [MapContestant.parse(text) for text in bd_rates.contestants(args, default)]


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
