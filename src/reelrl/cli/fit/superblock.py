"""Fit a map policy of a dozen weights to a quality metric, on clips of the training split.

reel fit superblock --objective weighted:moving -o moving.yaml
reel fit superblock --objective psnr_y --clips generated:street generated:pan -o psnr.yaml
reel evaluate superblock --controllers moving.yaml           then see what it does on other clips

Objectives: psnr_y, psnr_y_of_mean, ssim_db, vmaf, and weighted:NAME of moving, centre, detail, saliency, text. What is
minimised is the bits at equal quality. `--frames 1 --windows 3 --reach 12` fits maps of still pictures, three of each
clip. A policy that does not clearly pay on other frames of its clips abstains: it sends no map.
"""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

from reelrl.cli import options, output
from reelrl.storage.files import check_output

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--objective", default="weighted:moving", metavar="METRIC", help="default weighted:moving")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="where the policy goes, as YAML")
    parser.add_argument("--clips", nargs="+", metavar="CLIP", help="default: every clip of the training split")
    parser.add_argument("--frames", type=int, default=12, metavar="N", help="of each window (default 12)")
    parser.add_argument("--windows", type=int, default=1, metavar="N", help="of each clip, spread over it (default 1)")
    parser.add_argument("--qps", default="30,36,42,48", help="each window takes two of them (default 30,36,42,48)")
    parser.add_argument("--population", type=int, default=8, metavar="N", help="policies per generation (default 8)")
    parser.add_argument("--generations", type=int, default=6, metavar="N", help="default 6")
    parser.add_argument("--spread", type=float, default=0.3, metavar="S", help="of weights at first (default 0.3)")
    parser.add_argument("--reach", type=int, default=3, metavar="QP", help="largest offset (default 3; aom takes 24)")
    options.add_workers(parser)
    options.add_seed(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from dataclasses import replace

    from reelrl.content.sources import open_clip
    from reelrl.encode.clip_choice import split_clips
    from reelrl.encode.superblock.fit import FitSettings, fit
    from reelrl.parallel import executor
    from reelrl.runs.progress import Progress

    settings = FitSettings(
        objective=args.objective,
        frames=args.frames,
        windows=args.windows,
        qps=options.numbers("--qps", args.qps),
        population=args.population,
        generations=args.generations,
        spread=args.spread,
        reach=args.reach,
        seed=args.seed,
    )
    clips = [open_clip(name) for name in args.clips] if args.clips else split_clips("train")
    check_output(args.output, *(file for clip in clips for file in clip.files))
    # Each feature both ways, then the generations; every policy is tried at two QPs of each window.
    tries = 2 * len(settings.names) + settings.population * settings.generations
    total = tries * 2 * len(clips) * settings.windows
    with Progress("fit", total, unit="encodes") as progress, executor(args.jobs) as work:
        policy = fit(clips, settings, work.map, lambda count, best: progress.update(count, saving=best))
    policy = replace(policy, facts=policy.facts | {"command": shlex.join(["reel", *sys.argv[1:]])})
    policy.save(args.output)
    if args.json:
        output.as_json(vars(policy))
        return 0
    for name, weight in policy.weights.items():
        output.line("weight", name, f"{weight:+.3f}")
    output.line(
        "after", "the first frame", f"{policy.inter_share:.2f} of it", f"from {policy.least_change:.2f} levels on"
    )
    facts = policy.facts
    output.line(
        "fitted", f"{facts['fitted_percent']:+.2f} % bits", f"{len(clips)} clips", f"{facts['encodes']} encodes"
    )
    verdict = "abstains: no clear saving" if policy.abstains else "sends maps"
    error = "one clip, no standard error" if facts["check_error"] is None else f"standard error {facts['check_error']}"
    output.line("check", f"{facts['check_percent']:+.2f} % bits", error, verdict)
    output.next_command(f"reel evaluate superblock --controllers {args.output}")
    return 0
