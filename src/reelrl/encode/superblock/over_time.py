"""QPs over time: how far each whole frame lies from the stream's QP.

In low delay every later frame refers to the key frame, so one constant, a finer key frame, is worth a tenth of the
bits. It is a rule, not learning: whoever may move whole frames is compared with `rule_shifts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelrl.encode.codecs.settings import MAX_OFFSET
from reelrl.encode.features import analyse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TIME_RULE = "time-rule"
"""The contestant that sends no map and codes by `rule_shifts`."""

TIME = "+time"
"""Ends the names of actions that also move whole frames."""

KEY_SHIFT, CUT_SHIFT = -12, -8  # a cut is followed by fewer frames than the beginning, on average
SHIFT_STEP = 4
"""QP steps between the seven choices of a frame's shift."""

LARGEST_SHIFT = MAX_OFFSET * SHIFT_STEP
_CUT = 0.7  # see `FrameAnalysis.scene_cut`


def rule_shifts(features: NDArray[np.float32], width: int, height: int) -> list[int]:
    """QP steps for each frame of features [frames, 8, superblocks]: the first and those after cuts are finer."""
    cuts = analyse(features, width, height).scene_cut > _CUT
    return [KEY_SHIFT if number == 0 else CUT_SHIFT if cut else 0 for number, cut in enumerate(cuts.tolist())]


def shifted(qp: int, shift: int) -> int:
    """The QP that is so many steps further, within what encoders take."""
    return min(max(qp + shift, 1), 63)
