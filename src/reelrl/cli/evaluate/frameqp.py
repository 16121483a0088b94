"""Compare controllers of libaom's frames with its own two-pass VBR, by BD-rate and by how well rates are met.

reel evaluate frameqp                                           the rule, clips of the test split
reel evaluate frameqp --controllers 'rate-model(1.1)@public'    with other numbers, by the public interface alone
reel evaluate frameqp --only rate-model evolved sac             learned policies against VBR and the rule
reel evaluate frameqp --split train --frames 100

`NAME@public` leaves libaom's private fields alone, and with that its own quantiser offsets inside frames.
Encodes are cached: a killed evaluation goes on where it stood. Writes points.csv, clips.csv, summary.json, index.html.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reelrl.cli import options
from reelrl.cli.evaluate import bd_rates
from reelrl.cli.evaluate.minigop import chosen_clips
from reelrl.storage.regular_files import own_path

if TYPE_CHECKING:
    import argparse

    from reelrl.encode.frameqp.evaluate import FrameEvaluationPlan

_METHOD = (
    "BD-rate is the change in bits at equal quality, so below zero is a saving: rates as logarithms, over the "
    "qualities that both curves reach, at the rates that were really spent. Target rates of a clip lie between those "
    "of constant quality at the QPs stated, where no probe is. Means are over clips; intervals are 95 % bootstrap over "
    "clips. A curve that is not monotone gives no figure and is listed. Passes count first and probe passes, and their "
    "time is charged. crf is libaom's constant quality, vbr2 its two-pass VBR."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    bd_rates.add_arguments(
        parser,
        "frameqp",
        preset=6,
        frames=0,
        qps="26,34,42,50,58",
        qps_help="of constant quality, between which rates lie",
        clips_help="names, recipes, files; A+B shows B after A",
        split_help="test (default), train or all",
    )


def run(args: argparse.Namespace) -> int:
    from reelrl.encode.frameqp import evaluate as frameqp
    from reelrl.encode.minigop.evaluation import page, summary
    from reelrl.report.verdicts import verdicts
    from reelrl.storage.files import writable_folder

    folder = writable_folder(args.out)  # before hours of encodes, not after them
    plan = _plan(args)
    words = bd_rates.contestants(args, frameqp.DEFAULT_CONTROLLERS)
    contestants = [frameqp.FrameContestant(each.name, each.spec) for each in map(frameqp.FrameContestant.parse, words)]
    clips = chosen_clips(args)
    points = frameqp.encode_everybody(contestants, clips, plan, args.jobs)
    anchors = frameqp.anchors_of(contestants)
    results = summary.clip_results(points, anchors, plan.metrics, args.method)
    concluded = verdicts(results)
    everyone = frameqp.with_own_modes(contestants)
    uses = summary.rate_uses(everyone, points, "vbr")
    passes = {use.contestant: use.passes for use in uses}
    notes = [
        f"{each.name} makes {passes[each.name]} passes, vbr2 {passes['vbr2']}" for each in everyone if not each.is_mode
    ]
    facts: dict[str, Any] = {
        "anchors": list(anchors),
        "clips": {clip.name: min(clip.frame_count, plan.frames or clip.frame_count) for clip in clips},
        "encoder": _encoder(plan),
        **bd_rates.facts(args, plan.metrics, sum(point.seconds for point in points)),
        "warnings": notes,
    }
    text = summary.tables(concluded, uses, anchors)
    text = summary.bd_table(concluded, uses, anchors, "psnr_y_of_mean") + "\n\n" + text
    page.write_page(
        own_path(folder / "index.html"), points, results, concluded, uses, facts,
        kicker="reel evaluate frameqp", method=_METHOD,
    )  # fmt: skip
    record = summary.as_record(concluded, uses)
    return bd_rates.hand_over(args, folder, {"points": points, "clips": results}, record, facts, text, notes)


def _plan(args: argparse.Namespace) -> FrameEvaluationPlan:
    from dataclasses import replace

    from reelrl.encode.codecs.aom.first_pass import TWO_PASS
    from reelrl.encode.frameqp.evaluate import FrameEvaluationPlan

    return FrameEvaluationPlan(
        qps=options.numbers("--qps", args.qps),
        frames=args.frames,
        encoder=replace(TWO_PASS, preset=args.preset),
        seed=args.seed,
    )


def _encoder(plan: FrameEvaluationPlan) -> str:
    from reelrl.encode import capabilities
    from reelrl.encode.codecs.aom.first_pass import LOOK_AHEAD

    version = capabilities("aom").version
    return f"libaom {version}, cpu-used {min(plan.encoder.preset, 6)}, two passes, {LOOK_AHEAD} frames ahead, 1 thread"
