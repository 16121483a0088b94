"""Single frames of recorded matches, and what is on them: where the player is and looks, and whom it sees where.

Places are divided into CELLS x CELLS cells each: who stands in a doorway is soon in the next place. The recording tells
who has a pixel on whose screen. That is what a frame reader can learn; where those are whom nobody sees is the location
net's business.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reelrl.act.location.samples import places_of
from reelrl.errors import ContentError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reelrl.act.location.embeddings import Store
    from reelrl.act.location.samples import Marks, Places
    from reelrl.act.recording.labels import Labels
    from reelrl.act.recording.maps import MapPlan
    from reelrl.act.recording.reader import Matches, MatchInfo

Floats = NDArray[np.float64]
Seen = list[tuple[NDArray[Any], ...]]
"""For each player of a match, row by row: whether alive, and then as in `LabelledFrames` after the pictures."""

HEADINGS = 16  # sectors of the compass, from east, counter-clockwise
CELLS = 3  # to a side of a place
MOST_SEEN = 8  # others on one screen; of more the nearest count
MOST_ENEMIES = 12  # that are told apart
_HALF_WIDTH = 16.0  # of a body, in map units
_NEAREST = 8.0
FIELD_OF_VIEW = 90.0  # degrees, from the left edge of a picture to the right one
_RAYS = 32
_STEP, _REACH = 24.0, 1400.0  # map units along a ray


@dataclass(frozen=True, eq=False)
class LabelledFrames:
    """N pictures of living players, by matches; `-1` is nobody, nowhere or unknown."""

    pictures: Tensor
    """uint8 [N, 3, height, width]."""
    cell: Tensor
    """[N], the player's own: place * CELLS² + cell in it."""
    heading: Tensor
    """[N], a number below HEADINGS."""
    view: Tensor
    """[N, places]: how much of each is on the screen."""
    seen_cell: Tensor
    """[N, MOST_SEEN], of those on the screen; `seen_body` is who: the players' numbers, then the enemies'."""
    seen_body: Tensor
    seen_span: Tensor
    """[N, MOST_SEEN, 2]: from where to where across the picture, in pixels."""

    def __len__(self) -> int:
        return len(self.cell)

    @property
    def places(self) -> int:
        return int(self.view.shape[1])

    def to(self, device: str | torch.device) -> LabelledFrames:
        return LabelledFrames(*(getattr(self, each.name).to(device) for each in fields(self)))

    def take(self, numbers: Tensor) -> LabelledFrames:
        """Some of the pictures, in the order given."""
        return LabelledFrames(*(getattr(self, each.name)[numbers] for each in fields(self)))

    @classmethod
    def of(cls, store: Store, data: Matches, matches: Sequence[MatchInfo], seen: Sequence[Seen]) -> LabelledFrames:
        """All pictures of living players in some matches, and what `look` said of each match."""
        parts = []
        for info, players in zip(matches, seen, strict=True):
            pictures = store.rows(data, info, lambda _: None)
            for player, (alive, *facts) in enumerate(players):
                parts.append([torch.from_numpy(each[alive]) for each in (pictures[player], *facts)])
        frames = cls(*(torch.cat(part) for part in zip(*parts, strict=True)))
        if not (frames.seen_cell >= 0).any():
            raise ContentError(
                f"nobody is on anybody's screen in {data.folder}, so there is nothing to learn about others; a frame "
                "reader needs matches of `reel collect doom`, which tell who sees whom"
            )
        return frames


def look(store: Store, data: Matches, info: MatchInfo, plan: MapPlan) -> Seen:
    """What is on a match's pictures, which are in the store from now on."""
    labels, rows = data.match(info.id).labels, np.arange(0, info.frames, store.encoder.stride)
    if not np.isfinite(labels.angle[labels.alive]).all():
        raise ContentError(
            f"match {info.id} in {data.folder} does not tell where its players look, nor whom they see; a frame "
            "reader needs matches of `reel collect doom`"
        )
    width = store.rows(data, info, lambda _: None).shape[-1]
    return [(labels.alive[rows, player], *seen) for player, seen in enumerate(_seen(labels, rows, plan, width))]


def distinct_bodies(data: Matches, matches: Sequence[MatchInfo]) -> tuple[int, int]:
    """How many players there are, and how many enemies that can have a name: 1 if they come and go, or are many."""
    players = {info.players for info in matches}
    if len(players) > 1:
        raise ContentError(
            f"matches in {data.folder} have from {min(players)} to {max(players)} players; a frame reader knows them "
            "by their numbers, so give matches with the same number"
        )
    counts = {data.match(info.id).labels.enemy_alive.shape[1] for info in matches}
    enemies = counts.pop()
    return players.pop(), enemies if not counts and 1 <= enemies <= MOST_ENEMIES else 1


def on_columns(cell: Tensor, body: Tensor, span: Tensor, bodies: int, cells: int, columns: int, width: int) -> Tensor:
    """Where on the screen a body stands in a cell: bool [N, columns, bodies, cells]."""
    edges = torch.arange(columns, device=cell.device) * (width / columns)
    there = (span[..., :1] < edges + width / columns) & (span[..., 1:] > edges) & (cell >= 0)[..., None]
    which = torch.zeros(*cell.shape, bodies * cells, device=cell.device)
    # Enemies without names are all the last body.
    which.scatter_(2, (body.clamp(max=bodies - 1) * cells + cell).clamp(min=0)[..., None], 1.0)
    return torch.unflatten(torch.einsum("njc,njk->nck", there.float(), which) > 0, 2, (bodies, cells))


def cells_of(plan: MapPlan, position: NDArray[np.floating], there: Marks) -> Places:
    """The cell of each position [..., 3] that is marked; elsewhere -1."""
    place = places_of(plan, position, there)
    box = plan.boxes[np.maximum(place, 0)]
    inside = (np.nan_to_num(position[..., :2]) - box[..., :2]) / (box[..., 2:] - box[..., :2])
    column, row = np.moveaxis((inside * CELLS).astype(np.int64).clip(0, CELLS - 1), -1, 0)
    return np.where(place >= 0, (place * CELLS + row) * CELLS + column, -1)


def _seen(labels: Labels, rows: NDArray[np.int64], plan: MapPlan, width: int) -> Iterator[tuple[NDArray[Any], ...]]:
    """For each player, row by row: own cell, heading, places in view, and who is on the screen where."""
    position = np.concatenate([labels.position, labels.enemy_position], axis=1)[rows]
    there = np.concatenate([labels.alive, labels.enemy_alive], axis=1)[rows]
    cells = cells_of(plan, position, there)
    sees = np.concatenate([labels.sees_mate, labels.sees_enemy], axis=2)[rows]
    for player in range(labels.alive.shape[1]):
        angle = np.nan_to_num(labels.angle[rows, player])  # of the dead it may be unknown
        span, depth = _across(position - position[:, player, None], angle, width)
        seen = sees[:, player] & there & (cells >= 0)
        # The nearest first; who is not seen comes last and is cut off, or is -1.
        order = np.argsort(np.where(seen, depth, np.inf), axis=1, kind="stable")[:, :MOST_SEEN]
        order = np.pad(order, ((0, 0), (0, MOST_SEEN - order.shape[1])))
        last = np.arange(MOST_SEEN) >= seen.sum(1, keepdims=True)
        yield (
            cells[:, player],
            (angle % 360 / (360 / HEADINGS)).astype(np.int64) % HEADINGS,
            in_view(plan, position[:, player], angle).astype(np.float32),
            np.where(last, -1, np.take_along_axis(cells, order, 1)),
            order,
            np.take_along_axis(span, order[..., None], 1).astype(np.float32),
        )


def _across(
    away: NDArray[np.floating], angle: NDArray[np.floating], width: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """From where to where on the screen [R, J, 2] bodies are seen that are `away` [R, J, 3], and how deep [R, J]."""
    forward = np.stack([np.cos(np.radians(angle)), np.sin(np.radians(angle))], -1)[:, None]
    depth = np.maximum((away[..., :2] * forward).sum(-1), _NEAREST)
    right = away[..., 0] * forward[..., 1] - away[..., 1] * forward[..., 0]
    scale = width / 2 / np.tan(np.radians(FIELD_OF_VIEW / 2))
    span = width / 2 + scale * (right[..., None] + np.array([-_HALF_WIDTH, _HALF_WIDTH])) / depth[..., None]
    # Whoever has a pixel on the screen is on it, if only at its edge.
    return np.stack([span[..., 0].clip(max=width - 1), span[..., 1].clip(min=1)], -1), depth


def in_view(plan: MapPlan, position: NDArray[np.floating], angle: NDArray[np.floating]) -> Floats:
    """The share of each place's floor [N, places] seen from positions [N, 2 or more] in directions [N], in degrees.

    Rays are cast against the walls of the map.
    """
    across = np.linspace(-1, 1, 2 * _RAYS + 1)[1::2] * np.tan(np.radians(FIELD_OF_VIEW / 2))
    bearing = np.radians(angle)[:, None] - np.arctan(across)
    dx, dy = np.cos(bearing), np.sin(bearing)
    x, y = position[:, :1].astype(np.float64), position[:, 1:2].astype(np.float64)
    free = _free_distance(plan.walls, x, y, dx, dy)
    share = np.zeros((len(position), len(plan.places)))
    boxes = plan.boxes[:, :, None, None]
    area = (plan.boxes[:, 2] - plan.boxes[:, 0]) * (plan.boxes[:, 3] - plan.boxes[:, 1])
    width = np.abs(np.gradient(np.arctan(across)))
    for far in np.arange(_STEP / 2, _REACH, _STEP):
        at_x, at_y = x + dx * far, y + dy * far
        inside = (boxes[:, 0] <= at_x) & (at_x <= boxes[:, 2]) & (boxes[:, 1] <= at_y) & (at_y <= boxes[:, 3])
        share += ((inside & (far < free)) * width).sum(-1).T * far * _STEP / area
    return np.asarray(share.clip(0, 1))


def _free_distance(walls: Floats, x: Floats, y: Floats, dx: Floats, dy: Floats) -> Floats:
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
