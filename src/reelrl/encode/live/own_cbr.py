"""The encoder's own cbr in live coding: with a buffer of the same size."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reelrl.encode.codecs.settings import EncoderSettings

_INITIAL = 0.6  # of the buffer: its own proportions for one of a second
_LEAST_MS, _MOST_MS = 40, 10_000  # of a buffer that SVT-AV1 takes


def own_cbr(settings: EncoderSettings, levels: int, kbps: float, buffer_s: float) -> EncoderSettings:
    """The settings with its cbr instead of QPs."""
    ms = min(max(round(1000 * buffer_s), _LEAST_MS), _MOST_MS)
    part = round(_INITIAL * ms)
    buffer = {"buf-sz": str(ms), "buf-initial-sz": str(part), "buf-optimal-sz": str(part)}
    return replace(
        settings,
        picture_qp=False,
        hierarchical_levels=levels,
        rate_control="cbr",
        target_kbps=kbps,
        options={**settings.options, **buffer},
    )
