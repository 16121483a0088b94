"""Compare mini-GOP controllers with the encoder's own rate controls by BD-rate and by how well rates are met.

reel evaluate minigop                                      the default controllers, clips of the test split
reel evaluate minigop --goal cbr                           low delay within a buffer, against the encoder's cbr
reel evaluate minigop --controllers sac=runs/0007          a trained run besides
reel evaluate minigop --controllers 'mine=policies/without-{source}.safetensors' --split all
reel evaluate minigop --controllers direct-search --share-over 'rate-model(0)' --frames 65     how near to an oracle
reel evaluate minigop --clips bbb_480x270+bloom_480x270    clips one after the other
reel evaluate minigop --only crf --split train --baseline crf.json     the curves that training compares with

Controllers are names, run folders, policy files or "package.module:Class"; {source} stands for the source of the clip.
Encodes are cached: a killed evaluation goes on where it stood. Writes points.csv, clips.csv, summary.json, index.html.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelrl.cli import options
from reelrl.cli.evaluate import bd_rates
from reelrl.storage.regular_files import own_path

if TYPE_CHECKING:
    import argparse

    from reelrl.content.clip import Clip
    from reelrl.encode.minigop.evaluate import MiniGopContestant, MiniGopEvaluationPlan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--goal", default="vbr", help="vbr (default): the clip's bits; cbr: low delay, within a buffer")
    bd_rates.add_arguments(
        parser,
        "minigop",
        preset=8,
        frames=0,
        qps="28,34,40,46,52",
        qps_help="of the crf encodes that rates come from",
        clips_help="names, recipes, files; A+B shows B after A",
        split_help="test (default), train or all",
    )
    add("--keyint", type=int, default=161, metavar="N", help="frames between key frames (default 161)")
    add("--threads", type=int, default=1, metavar="N", help="of the encoder; more make vbr differ")
    add("--buffer", type=float, default=1.0, metavar="S", help="seconds of the leaky bucket (default 1)")
    add("--headroom", type=int, metavar="QP", help="of controllers' sessions above their probe (default 12; 0: none)")
    add("--share-over", metavar="NAME", help="each one's share of the oracle's gain over this contestant")
    add("--vmaf", action="store_true", help="VMAF as well, which takes longer than the encodes")
    add("--baseline", metavar="FILE", help="write the crf curves for reel train minigop")


def run(args: argparse.Namespace) -> int:
    from reelrl.encode.minigop import evaluate as minigop
    from reelrl.encode.minigop.evaluation import baseline, oracle_share
    from reelrl.encode.minigop.evaluation import page as minigop_page
    from reelrl.encode.minigop.evaluation import summary as minigop_summary
    from reelrl.report.verdicts import verdicts
    from reelrl.storage.files import writable_folder

    folder = writable_folder(args.out)  # before hours of encodes, not after them
    plan = _plan(args)
    contestants = _contestants(args)
    clips = chosen_clips(args)
    everyone = minigop.with_anchors(contestants, plan.goal)
    # Asked for now, because a share of nobody's gain would be noticed only after the encodes.
    oracle = oracle_share.oracle_of(everyone, args.share_over) if args.share_over else ""
    points = minigop.encode_all(contestants, clips, plan, args.jobs)
    results = minigop_summary.clip_results(points, minigop.ANCHORS[plan.goal], plan.metrics, args.method)
    summary = verdicts(results)
    uses = minigop_summary.rate_uses(everyone, points, plan.goal)
    warned = minigop_summary.warnings(everyone, uses, plan)
    facts = _facts(args, plan, clips, sum(point.seconds for point in points)) | {"warnings": warned}
    text = minigop_summary.tables(summary, uses, minigop.ANCHORS[plan.goal])
    if oracle:
        shares = oracle_share.shares(points, oracle, args.share_over, args.method)
        facts["shares"] = [share.record() for share in shares]
        text += f"\n\n{oracle_share.table(shares)}"
    minigop_page.write_page(own_path(folder / "index.html"), points, results, summary, uses, facts)
    if args.baseline:
        baseline.write_baseline(Path(args.baseline), points, plan)
    concluded = minigop_summary.as_record(summary, uses)
    return bd_rates.hand_over(args, folder, {"points": points, "clips": results}, concluded, facts, text, warned)


def _plan(args: argparse.Namespace) -> MiniGopEvaluationPlan:
    from reelrl.encode.codecs.settings import EncoderSettings
    from reelrl.encode.minigop.evaluate import MiniGopEvaluationPlan
    from reelrl.encode.minigop.source.preparation import HEADROOM

    if args.vmaf:
        from reelrl.content.quality import vmaf_program

        vmaf_program()  # complain now, not after the first encode
    return MiniGopEvaluationPlan(
        goal=args.goal,
        qps=options.numbers("--qps", args.qps),
        frames=args.frames,
        encoder=EncoderSettings(preset=args.preset, keyint=args.keyint, threads=args.threads),
        buffer_s=args.buffer,
        headroom=HEADROOM if args.headroom is None else args.headroom,
        with_vmaf=args.vmaf,
        seed=args.seed,
    )


def _contestants(args: argparse.Namespace) -> list[MiniGopContestant]:
    from reelrl.encode.minigop.evaluate import DEFAULT_CONTROLLERS, MiniGopContestant

    return [MiniGopContestant.parse(text) for text in bd_rates.contestants(args, DEFAULT_CONTROLLERS[args.goal])]


def chosen_clips(args: argparse.Namespace) -> list[Clip]:
    from reelrl.encode.clip_choice import split_clips
    from reelrl.encode.minigop.evaluate import open_sequence

    if args.clips:
        return [open_sequence(name) for name in args.clips]
    sides = ("train", "test") if args.split == "all" else (args.split,)
    return [clip for side in sides for clip in split_clips(side) if not clip.source.startswith("atari:")]


def _facts(args: argparse.Namespace, plan: MiniGopEvaluationPlan, clips: list[Clip], seconds: float) -> dict[str, Any]:
    from reelrl.encode import capabilities
    from reelrl.encode.minigop.evaluate import ANCHORS

    settings = plan.settings
    structure = settings.structure.replace("_", " ")
    return {
        "goal": plan.goal,
        "anchors": list(ANCHORS[plan.goal]),
        "clips": {clip.name: min(clip.frame_count, plan.frames or clip.frame_count) for clip in clips},
        "encoder": f"{settings.backend} {capabilities(settings.backend).version}, preset {settings.preset}, "
        f"{structure}, mini-GOPs of {2**settings.levels}, keyint {settings.keyint}, {settings.threads} thread",
        "buffer_s": plan.buffer_s,
        "headroom": plan.headroom,
        **bd_rates.facts(args, plan.metrics, seconds),
    }
