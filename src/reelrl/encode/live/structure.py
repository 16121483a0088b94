"""Which frame refers to which, without delay: mini-GOPs of 2 ** levels frames, or every frame alike with none.

number   0    1  2  3   4    5  6  7   8
layer    0    2  1  2   0    2  1  2   0      with two levels, as SVT-AV1's own cbr: nobody refers to layer 2
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reelrl.encode.live.frame_look import FrameLook

LEVELS = 2
"""Of SVT-AV1's own cbr, and ours."""

LAYERS = LEVELS + 1


def layer_of(number: int, levels: int = LEVELS) -> int:
    """Temporal layer of a frame, by its place in the stream."""
    place = number % 2**levels
    return 0 if place == 0 else levels + 1 - (place & -place).bit_length()


def is_reference(layer: int, levels: int = LEVELS) -> bool:
    return layer < levels or levels == 0


def shares(levels: int = LEVELS) -> list[float]:
    """Of the frames, by layer."""
    return [1.0] if levels == 0 else [2.0**-levels, *(2.0 ** (layer - levels - 1) for layer in range(1, levels + 1))]


_NEW_PART, _NEW_ENERGY, _SUDDEN = 0.15, 0.45, 3.0


class SceneWatch:
    """Whether the coming frame finds anything to refer to: after a cut nothing, until a reference is coded."""

    def __init__(self, levels: int = LEVELS) -> None:
        self._levels = levels
        self._known = False  # a reference of this scene is coded
        self._usual_energy = 0.0  # of what frames before the last one left
        self.changed = False
        """Whether much of the picture is new that no frame shows yet to which others refer: a slide, a window."""

    def afresh(self, look: FrameLook) -> bool:
        """Asked once for each frame, before it is coded."""
        self._known = self._known and not look.is_cut
        energy, left = look.energy
        sudden = left > _NEW_ENERGY * energy and left > _SUDDEN * self._usual_energy
        self.changed = self.changed or sudden or look.cut > _NEW_PART
        self._usual_energy += 0.5 * (left - self._usual_energy)
        return not self._known

    def coded(self, layer: int) -> None:
        reference = is_reference(layer, self._levels)
        self._known = self._known or reference
        self.changed = self.changed and not reference
