"""`reel encode --live`: one frame in, one QP out, within a buffer; over a link that changes with `--trace`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reelrl.cli import encode_aom, output
from reelrl.errors import ConfigError
from reelrl.runs.progress import duration

if TYPE_CHECKING:
    import argparse

    from reelrl.content.clip import Clip
    from reelrl.content.read.carried import Carried
    from reelrl.encode.codecs.settings import EncoderSettings
    from reelrl.encode.live.coding import LiveStream
    from reelrl.encode.live.link import Uplink

DEFAULT_POLICY = "rule"
_OWN = {"buffer": None, "trace": None, "drop": False, "twice": False}
_OTHERS = ("target", "crf", "workers", "resume", "compare", "export_qpfile", "export_zones", "export_scenes")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--live", action="store_true", help="frame by frame, nothing of later frames known, within a buffer")
    add("--buffer", type=float, metavar="S", help="with --live: seconds that a frame may be under way (default 1)")
    add("--trace", metavar="FILE", help="with --live: a network trace that the rate follows, up to --bitrate")
    add("--drop", action="store_true", help="with --live: leave out frames that would be late at any QP")
    add("--twice", action="store_true", help="with --live: code frames after cuts twice, to know what they take")


def check_arguments(args: argparse.Namespace) -> None:
    """Refuse what has no effect, or can't be had."""
    if not args.live:
        for name, default in _OWN.items():
            if getattr(args, name) != default:
                raise ConfigError(f"--{name} goes with --live; add it, or leave --{name} out")
        return
    for name in _OTHERS:
        if getattr(args, name):
            raise ConfigError(
                f"--{name.replace('_', '-')} with --live: a live stream has a bitrate and one piece; drop one"
            )
    if encode_aom.is_chosen(args):
        raise ConfigError(f"--backend {args.backend} with --live: files are coded live by SVT-AV1 alone; leave it out")
    if args.buffer is not None and not args.buffer > 0:
        raise ConfigError(f"--buffer {args.buffer:g}; a buffer holds some time, such as 0.5")


def encode(
    clip: Clip, settings: EncoderSettings, carried: Carried, kbps: float, args: argparse.Namespace
) -> dict[str, Any]:
    """Code, write; and what there is to say about it."""
    from reelrl.content.write.video import write_bitstream
    from reelrl.encode.live.coding import LIVE, LivePlan, encode_live

    plan = LivePlan(
        kbps,
        args.buffer or 1.0,
        link=_link(args.trace) if args.trace else None,
        drop=args.drop,
        twice=args.twice,
        watch=args.trace is not None,
        bits=args.policy or DEFAULT_POLICY,
    )
    chosen = replace(LIVE, preset=settings.preset, threads=settings.threads, options=settings.options)
    stream = encode_live(clip, plan, chosen)
    kept = [number for number, packet in enumerate(stream.packets) if packet is not None]
    packets = (packet.data for packet in stream.packets if packet is not None)
    carried = _shown_longer(carried, kept, clip) if stream.dropped else carried
    left_out = write_bitstream(args.output, packets, clip.width, clip.height, clip.fps, carried)
    return _figures(clip, plan.bits, kbps, stream) | {"output": args.output, "trace": args.trace, "left_out": left_out}


def show(facts: dict[str, Any]) -> None:
    policy = facts["policy"]
    if facts["cbr_frames"]:
        policy = f"the encoder's cbr (drawn with few levels) for {facts['cbr_frames']} frames"
    output.line("policy", policy, "live", f"{facts['decision_us']:.0f} us a decision", duration(facts["seconds"]))
    error = f"{100 * facts['rate_error']:+.1f} % of the target"
    rate = [f"{facts['kbps']:.1f} kbit/s", *([] if facts["trace"] else [error])]
    output.line("coded", facts["output"], f"{facts['frames']} frames", *rate, f"PSNR-Y {facts['psnr_y']:.2f} dB")
    late = f"{facts['late']} late ({facts['late'] / facts['frames']:.1%})"
    dropped = [f"{facts['dropped']} dropped"] if facts["dropped"] else []
    delay = f"delay {1000 * facts['delay_mean_s']:.0f} ms, 95 % below {1000 * facts['delay_p95_s']:.0f}"
    output.line("sent", f"buffer {facts['buffer_s']:g} s", late, *dropped, delay)
    if facts["trace"]:
        output.line("seen", facts["trace"], f"PSNR-Y {facts['seen_psnr_y']:.2f} dB", "of what is on the screen in time")
    for what in facts["left_out"]:
        output.line("lost", what)


def _figures(clip: Clip, policy: str, kbps: float, stream: LiveStream) -> dict[str, Any]:
    import numpy as np

    from reelrl.content.quality import mean_of_frame_psnr

    pixels, viewer = clip.width * clip.height, stream.viewer
    delays = [delay for delay in viewer.delays_s if delay is not None]
    spent = stream.bits / clip.duration_s / 1000
    return {
        "policy": policy,
        "cbr_frames": stream.cbr_frames,
        "frames": clip.frame_count,
        "target_kbps": kbps,
        "kbps": spent,
        "rate_error": spent / kbps - 1,
        "psnr_y": mean_of_frame_psnr(stream.sse_y, pixels),
        "seen_psnr_y": mean_of_frame_psnr(viewer.sse_y, pixels) if viewer.sse_y else None,
        "buffer_s": viewer.buffer_s,
        "late": viewer.late,
        "dropped": stream.dropped,
        "delay_mean_s": float(np.mean(delays)),
        "delay_p95_s": float(np.quantile(delays, 0.95)),
        "decision_us": float(np.median(stream.decision_s)) * 1e6,
        "look_us": float(np.median(stream.look_s)) * 1e6,
        "qps": [packet.qp if packet else None for packet in stream.packets],
    }


def _link(path: str) -> Uplink:
    from reelrl.encode.live.link import Uplink
    from reelrl.stream.data.traces import read_trace

    trace = read_trace(path)
    return Uplink(tuple(trace.edges_s.tolist()), tuple(trace.kbps.tolist()))


def _shown_longer(carried: Carried, kept: list[int], clip: Clip) -> Carried:
    """Times of the frames that are there: each is shown until the next one."""
    from reelrl.content.read.timing import Timing

    timing = carried.timing or Timing.constant(clip.fps)
    ends = timing.starts[clip.frame_count - 1] + timing.last
    starts = [timing.starts[number] for number in kept]
    return replace(carried, timing=Timing(timing.time_base, starts, ends - starts[-1]))
