"""libaom in two passes: what it is opened with, what it is refused, and the first pass with its statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelrl.encode.codecs.aom import api
from reelrl.encode.codecs.aom.context import AomContext
from reelrl.encode.codecs.control import check_frame
from reelrl.encode.codecs.settings import EncoderSettings, key_facts
from reelrl.errors import ConfigError
from reelrl.settings.config import to_mapping
from reelrl.storage.cache import RAW, cached, key_of
from reelrl.storage.files import cache_dir

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reelrl.content.clip import Clip
    from reelrl.content.frame import Frame

TWO_PASS = EncoderSettings(
    backend="aom", structure="random_access", rate_control="crf", preset=6, keyint=9999, recon=False
)
"""Settings to start from: libaom's constant quality at its fastest, a key frame only where it finds a cut."""

LOOK_AHEAD = 35
"""Frames that libaom sees ahead; 19 or more, or it codes no alternate references."""

_FASTEST = 6
_END_USAGE = {"crf": api.CONSTANT_QUALITY, "vbr": api.VBR}


def check_two_pass(settings: EncoderSettings, *, steered: bool) -> None:
    """Refuse settings that this session cannot meet."""
    if not (settings.width and settings.height):
        raise ConfigError("settings have no frame size; set width and height, or use settings.for_clip(clip)")
    if settings.backend != TWO_PASS.backend or settings.low_delay:
        raise ConfigError(
            f"backend = {settings.backend}, structure = {settings.structure}; two passes with look-ahead are for "
            "backend=aom, structure=random_access: start from TWO_PASS"
        )
    if settings.bit_depth != 8:
        raise ConfigError(f"bit_depth = {settings.bit_depth}: two passes with look-ahead code 8 bits; use at_depth(8)")
    if settings.rate_control not in _END_USAGE:
        raise ConfigError(f"rate_control = {settings.rate_control}; two passes with look-ahead know crf and vbr")
    if steered and settings.rate_control != "crf":
        raise ConfigError(f"rate_control = {settings.rate_control}: libaom chooses there by itself; steer it in crf")
    if settings.crf_quarters or settings.picture_qp or settings.hierarchical_levels is not None or settings.tune:
        raise ConfigError(
            "crf_quarters, picture_qp, hierarchical_levels and tune mean nothing in two passes; leave them out"
        )


def two_pass_statistics(clip: Clip, settings: EncoderSettings) -> bytes:
    """First-pass statistics of a clip for `TwoPassSession`, cached on disk."""
    settings = settings.for_clip(clip)
    check_two_pass(settings, steered=False)
    # The first pass looks at pictures alone: how they are coded afterwards changes nothing in it.
    unseen = {*vars(settings)} - {"width", "height", "fps", "preset", "threads", "options"}
    chosen = key_facts(to_mapping(settings), unseen)
    key = key_of(["two-pass", clip.content_hash, chosen, api.load().version])
    return cached(cache_dir() / "first-pass" / f"{key}.bin", lambda: fresh_two_pass_statistics(clip, settings), RAW)


def fresh_two_pass_statistics(clip: Iterable[Frame], settings: EncoderSettings) -> bytes:
    """The same, made anew: for those who measure how long it takes."""
    context = opened(settings, api.FIRST_PASS, None)
    log = bytearray()
    try:
        set_modes(context, settings, inner_delta_q=True)
        for number, frame in enumerate(clip):
            check_frame(frame, settings)
            context.encode(frame, number)
            log += b"".join(packet.data for packet in context.packets() if packet.statistics)
        context.encode(None, 0)
        log += b"".join(packet.data for packet in context.packets() if packet.statistics)
    finally:
        context.close()
    return bytes(log)


def opened(settings: EncoderSettings, which_pass: int, statistics: bytes | None) -> AomContext:
    """libaom, open for one of its passes."""
    values = {
        "threads": settings.threads,
        "width": settings.width,
        "height": settings.height,
        "timebase_num": settings.fps.denominator,
        "timebase_den": settings.fps.numerator,
        "which_pass": which_pass,
        "lag_in_frames": LOOK_AHEAD,
        "rate_control": _END_USAGE[settings.rate_control],
        "kf_max_dist": 9999 if settings.keyint == -1 else settings.keyint,
    }
    if settings.target_kbps is not None:
        values["target_kbps"] = round(settings.target_kbps)
    return AomContext(values, statistics)


def set_modes(context: AomContext, settings: EncoderSettings, *, inner_delta_q: bool) -> None:
    """Speed, quality and options; without `inner_delta_q` all of a frame has one quantiser."""
    context.control(api.CPU_USED, min(settings.preset, _FASTEST))
    if settings.rate_control == "crf":
        context.control(api.CQ_LEVEL, settings.qp)
    if not inner_delta_q:
        # Libaom drops its offsets inside a frame where somebody else chooses quantisers, but not their Lagrangian.
        context.control(api.DELTAQ_MODE, 0)
    for name, text in settings.options.items():
        context.option(name, text)
