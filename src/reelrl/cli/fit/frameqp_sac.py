"""Train an agent that steers the quantiser of every frame libaom codes: constrained SAC, from the rule.

reel fit frameqp-sac -o agent.safetensors --clips carphone_qcif 'generated:street?size=176x144' --episodes 400
reel evaluate frameqp --controllers agent.safetensors

A gain is in dB over `rate-model` at the bits spent, half by the mean of PSNRs, half by the PSNR of the mean error.
Ctrl+C ends after the episodes under way and saves the agent as it is by then.
"""

from __future__ import annotations

import shlex
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from reelrl.cli import options, output
from reelrl.cli.fit import frame_lessons
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-o", "--output", required=True, metavar="FILE", help="where the agent goes (.safetensors)")
    frame_lessons.add_arguments(parser, seconds="begin no episode later")
    add("--episodes", type=int, default=400, metavar="N", help="default 400")
    add("--rollout", type=int, default=4, metavar="N", help="episodes that one policy plays, side by side (default 4)")
    add("--target-entropy", type=float, default=-1.5, metavar="NATS", help="of an action: its noise (default -1.5)")
    options.add_workers(parser, default=1)
    options.add_seed(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from reelrl.encode.frameqp.train import LEARNER, FrameTraining, train
    from reelrl.parallel import executor
    from reelrl.runs.interrupts import Interrupted, first_interrupt_asks

    if not args.output.endswith(".safetensors"):
        raise ConfigError(f"{args.output} does not end in .safetensors; agents are saved as such, and found by it")
    if not args.seconds > 0:
        raise ConfigError(f"--seconds {args.seconds:g}; give more than 0, so that one episode begins")
    settings = FrameTraining(
        sac=replace(LEARNER, target_entropy=args.target_entropy),
        episodes=args.episodes,
        rollout=args.rollout,
        frames=args.frames,
        qps=options.numbers("--qps", args.qps),
    )
    clips = frame_lessons.clips_for(args, args.output)
    until, stopped = time.monotonic() + args.seconds, threading.Event()

    def go_on() -> bool:
        return not stopped.is_set() and time.monotonic() < until

    with executor(args.jobs) as work, first_interrupt_asks(stopped.set):
        policy = train(settings, tuple(clips), args.seed, work, _show, go_on)
    policy.save(args.output)
    last = policy.facts["gains_db"][-len(clips) * len(settings.qps) :]
    mean = sum(last) / len(last)
    output.line("trained", f"{len(policy.facts['gains_db'])} episodes", f"{mean:+.3f} dB in the last {len(last)}")
    if args.json:
        output.as_json({"file": args.output, **policy.facts})
    output.next_command(f"reel evaluate frameqp --controllers {shlex.quote(args.output)}")
    if stopped.is_set():
        raise Interrupted(f"{len(policy.facts['gains_db'])} episodes")
    return 0


def _show(number: int, gain_db: float, rate_error: float) -> None:
    output.line("episode", str(number), f"{gain_db:+.3f} dB over the rule, {rate_error:+.1%} of the rate")
