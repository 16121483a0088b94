"""`reel encode --backend aom`: libaom in two passes, the quantiser of each frame chosen so that the bitrate is met."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reelrl.errors import ConfigError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from reelrl.content.clip import Clip
    from reelrl.content.read.carried import Carried
    from reelrl.encode.codecs.settings import EncoderSettings

DEFAULT_POLICY = "rate-model"
_ONE_PIECE = ("workers", "resume", "ray", "export_qpfile", "export_zones", "export_scenes", "crf", "target")
_COLOUR = ("color-primaries", "transfer-characteristics", "matrix-coefficients", "color-range")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--backend", choices=("svtav1", "aom"), default="svtav1", help="svtav1 (default); aom: libaom in two passes"
    )


def is_chosen(args: argparse.Namespace) -> bool:
    """Whether the file is to be coded in two passes, frame by frame."""
    from reelrl.encode.codecs.aom.first_pass import TWO_PASS

    return bool(args.backend == TWO_PASS.backend)


def check_arguments(args: argparse.Namespace) -> None:
    """Refuse before the first pass what libaom's two passes cannot do here."""
    if not is_chosen(args):
        return
    for name in _ONE_PIECE:
        if getattr(args, name, None):
            raise ConfigError(
                f"--{name.replace('_', '-')} with --backend aom, which meets a bitrate in one piece on one core; "
                "use --bitrate or --size alone, or --backend svtav1"
            )
    if args.structure != "random_access":
        raise ConfigError(f"--structure {args.structure} with --backend aom: it codes with look-ahead; leave it out")


def two_pass_settings(clip: Clip, args: argparse.Namespace, colours: dict[str, str]) -> EncoderSettings:
    """Libaom for a file; its speed is the preset's, at most 6."""
    from reelrl.encode.codecs.aom.first_pass import TWO_PASS, check_two_pass

    options = {name: colours[name] for name in _COLOUR if name in colours}
    settings = replace(
        TWO_PASS, preset=args.preset, keyint=args.keyint, threads=args.threads, options=options
    ).for_clip(clip)
    check_two_pass(settings, steered=True)
    return settings


def encode(
    clip: Clip,
    settings: EncoderSettings,
    kbps: float,
    carried: Carried,
    args: argparse.Namespace,
    phase: Callable[[str, int], Any],
) -> dict[str, Any]:
    """Probe, encode, write; and what there is to say about it."""
    from reelrl.encode.codecs.whole_clip import Encoded
    from reelrl.encode.frameqp.evaluation.encodes import PUBLIC, controller_of
    from reelrl.encode.frameqp.run import run_frame_controller
    from reelrl.encode.frameqp.source.preparation import MOST_PROBES, FramePreparation

    policy = args.policy or DEFAULT_POLICY
    controller = controller_of(policy)
    with phase("prepare", 1 + MOST_PROBES):
        prepared = FramePreparation(clip, settings, keep_delta_q=not policy.endswith(PUBLIC))
        source = prepared.source(kbps=kbps)
    with phase("encode", 1):
        done = run_frame_controller(source, controller, args.seed)
    encoded = Encoded(clip, source.settings, done.packets)
    left_out = encoded.save(args.output, carried)
    return {
        "policy": policy,
        "passes": done.episode.passes + 2,
        "parts": 1,
        "resumed": 0,
        "target_kbps": kbps,
        "kbps": encoded.kbps,
        "rate_error": encoded.kbps / kbps - 1,
        "psnr_y": encoded.psnr_y,
        "size_bytes": encoded.size_bytes,
        "deltas": list(done.deltas),
        "left_out": left_out,
    }


def compare(clip: Clip, settings: EncoderSettings, kbps: float, phase: Callable[[str, int], Any]) -> dict[str, Any]:
    """Libaom's own two-pass VBR at the same bitrate."""
    from reelrl.encode.codecs.aom.first_pass import two_pass_statistics
    from reelrl.encode.codecs.aom.two_pass import TwoPassSession
    from reelrl.encode.codecs.whole_clip import Encoded

    settings = replace(settings, rate_control="vbr", target_kbps=kbps)
    with (
        phase("compare", 2),
        TwoPassSession(clip, settings, two_pass_statistics(clip, settings), steered=False) as session,
    ):
        session.request()
    own = Encoded(clip, settings, tuple(session.packets))
    error = own.kbps / kbps - 1
    return {
        "mode": "vbr", "passes": 2, "kbps": own.kbps, "rate_error": error, "psnr_y": own.psnr_y,
        "size_bytes": own.size_bytes,
    }  # fmt: skip
