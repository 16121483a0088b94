"""How much of each place is on a player's screen, by rays cast against the walls of the map."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reelrl.act.recording.maps import MapPlan

    Floats = NDArray[np.float64]

FIELD_OF_VIEW = 90.0  # degrees, from the left edge of a picture to the right one
_RAYS = 32
_STEP, _REACH = 24.0, 1400.0  # map units along a ray


def in_view(plan: MapPlan, position: NDArray[np.floating], angle: NDArray[np.floating]) -> Floats:
    """The share of each place's floor [N, places] seen from positions [N, 2 or more] in directions [N], in degrees."""
    across = np.linspace(-1, 1, 2 * _RAYS + 1)[1::2] * np.tan(np.radians(FIELD_OF_VIEW / 2))
    bearing = np.radians(angle)[:, None] - np.arctan(across)
    dx, dy = np.cos(bearing), np.sin(bearing)
    x, y = position[:, :1].astype(np.float64), position[:, 1:2].astype(np.float64)
    free = _free(plan.walls, x, y, dx, dy)
    share = np.zeros((len(position), len(plan.places)))
    boxes = plan.boxes[:, :, None, None]
    area = (plan.boxes[:, 2] - plan.boxes[:, 0]) * (plan.boxes[:, 3] - plan.boxes[:, 1])
    width = np.abs(np.gradient(np.arctan(across)))
    for far in np.arange(_STEP / 2, _REACH, _STEP):
        at_x, at_y = x + dx * far, y + dy * far
        inside = (boxes[:, 0] <= at_x) & (at_x <= boxes[:, 2]) & (boxes[:, 1] <= at_y) & (at_y <= boxes[:, 3])
        share += ((inside & (far < free)) * width).sum(-1).T * far * _STEP / area
    return np.asarray(share.clip(0, 1))


def _free(walls: Floats, x: Floats, y: Floats, dx: Floats, dy: Floats) -> Floats:
    """How far each ray goes before it meets a wall."""
    free = np.full(dx.shape, _REACH)
    for x1, y1, x2, y2 in walls:
        along_x, along_y, to_x, to_y = x2 - x1, y2 - y1, x1 - x, y1 - y
        with np.errstate(divide="ignore", invalid="ignore"):
            cross = dx * along_y - dy * along_x
            far, on_wall = (to_x * along_y - to_y * along_x) / cross, (to_x * dy - to_y * dx) / cross
        met = (far > 0) & (on_wall >= 0) & (on_wall <= 1)
        free = np.where(met, np.minimum(free, far), free)
    return free
