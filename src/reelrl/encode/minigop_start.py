"""A first guess: at which QP will a clip take a bitrate?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from reelrl.encode.features import analyse, clip_features
from reelrl.encode.minigop_pyramid import HIGHEST_QP

if TYPE_CHECKING:
    from reelrl.content.clip import Clip
    from reelrl.encode.settings import EncoderSettings

_QP_PER_OCTAVE = 7.0  # so many QP steps halve the bits
_LOWEST = 8  # below, a base picture would be all but lossless


def starting_qp(clip: Clip, settings: EncoderSettings, kbps: float) -> int:
    """QP at which the clip takes about `kbps`, judged by its pictures alone."""
    analysis = analyse(clip_features(clip), clip.width, clip.height)
    complexity = math.log2(float((analysis.intra_energy * 0.05 + analysis.inter_energy * 0.3).mean()) + 0.01)
    extra = 0.5 if settings.low_delay else 0.0
    wanted = math.log2(kbps * 1000 / float(clip.fps) / (clip.width * clip.height))
    return min(max(round(_QP_PER_OCTAVE * (complexity + extra + 2 - wanted)), _LOWEST), HIGHEST_QP - 4)
