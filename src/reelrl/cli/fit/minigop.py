"""Fit a rule that imitates the direct search: how mini-GOPs should differ, from what probe and analysis know.

reel fit minigop -o imitation.json                                 on clips of the training split
reel fit minigop --split all -o 'policies/without-{source}.json'   a rule per source, which has not seen that source
reel evaluate minigop --controllers 'imitation=policies/without-{source}.json' --split all
reel encode in.y4m -o out.mkv --policy imitation.json --bitrate 500

The search codes each clip some thirty times per rate, so clips are cut to --frames. Encodes are cached. What "unseen"
says is how much of the variance of the searched offsets rules explain on sources that they were not fitted to.
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
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="where the rule goes; may hold {source}")
    parser.add_argument("--clips", nargs="+", metavar="CLIP", help="default: every clip of --split")
    parser.add_argument("--split", default="train", help="train (default), test or all")
    parser.add_argument("--frames", type=int, default=65, metavar="N", help="of each clip (default 65: 4 mini-GOPs)")
    parser.add_argument("--qps", default="32,44", help="of the crf encodes that rates come from (default 32,44)")
    parser.add_argument("--preset", type=int, default=8, help="the encoder's speed preset (default 8)")
    parser.add_argument("--keyint", type=int, default=161, metavar="N", help="frames between key frames (default 161)")
    parser.add_argument("--ridge", type=float, default=1.0, metavar="R", help="pull of weights to zero (default 1)")
    options.add_workers(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from reelrl.cli.evaluate.minigop import chosen_clips
    from reelrl.encode.codecs.settings import EncoderSettings
    from reelrl.encode.minigop.controllers.imitation import INPUTS
    from reelrl.encode.minigop.evaluate import MiniGopEvaluationPlan, for_source
    from reelrl.encode.minigop.fit import fitted, leave_one_out, search

    plan = MiniGopEvaluationPlan(
        qps=options.numbers("--qps", args.qps),
        frames=args.frames,
        encoder=EncoderSettings(preset=args.preset, keyint=args.keyint),
    )
    clips = chosen_clips(args)
    for clip in clips:
        check_output(for_source(args.output, clip.source), *(file for each in clips for file in each.files))
    searches = search(clips, plan, args.jobs)
    facts = {"command": shlex.join(["reel", *sys.argv[1:]])}
    rule, unseen = fitted(searches, args.ridge, facts), None
    for_each = "{source}" in args.output
    if for_each or len({each.source for each in searches}) > 1:
        rules, unseen = leave_one_out(searches, args.ridge, facts)
    for source, each in rules.items() if for_each else [("", rule)]:
        each.save(for_source(args.output, source))
    weights = dict(zip(INPUTS, rule.weights.tolist(), strict=True))
    if args.json:
        output.as_json({"weights": weights, "unseen": unseen, "searched": len(searches), **rule.facts})
        return 0
    for name, weight in weights.items():
        output.line("weight", name, f"{weight:+.3f}")
    output.line("fitted", f"{len(searches)} searches", f"{len(rule.facts['clips'])} clips")
    if unseen is not None:
        output.line("unseen", f"{unseen:.0%} of the variance", "on sources left out in turn")
    output.next_command(f"reel evaluate minigop --controllers {shlex.quote('imitation=' + args.output)}")
    return 0
