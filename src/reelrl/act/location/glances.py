"""Single pictures of recorded matches, and what is on them: where the player is, where it looks, whom it sees where.

The recording tells who has a pixel on whose screen. That is what eyes can learn; where those are whom nobody sees is
the location net's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from reelrl.act.location.samples import occupied, places_of
from reelrl.errors import ContentError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reelrl.act.location.embeddings import Store
    from reelrl.act.recording.labels import Labels
    from reelrl.act.recording.maps import MapPlan
    from reelrl.act.recording.reader import Matches, MatchInfo

HEADINGS = 8  # sectors of the compass, from east, counter-clockwise


@dataclass(frozen=True, eq=False)
class Glances:
    """N pictures of living players, by matches."""

    pictures: Tensor
    """uint8 [N, 3, height, width]."""
    place: Tensor
    """[N], the player's own; -1 is nowhere."""
    heading: Tensor
    """[N], a number below HEADINGS; -1 is unknown."""
    mates: Tensor
    """Bool [N, places]: one of the team is there and on the screen; `enemies` likewise."""
    enemies: Tensor

    def __len__(self) -> int:
        return len(self.place)

    @classmethod
    def of(cls, data: Matches, matches: Sequence[MatchInfo], store: Store, plan: MapPlan) -> Glances:
        """All rows of the store's stride in which the player is alive."""
        parts = []
        for info in matches:
            pictures = store.rows(data, info, lambda _: None)
            labels = data.match(info.id).labels
            rows = np.arange(0, info.frames, store.eyes.stride)
            for player, seen in enumerate(_seen(labels, rows, plan)):
                alive = labels.alive[rows, player]
                parts.append([torch.from_numpy(each[alive]) for each in (pictures[player], *seen)])
        found = cls(*(torch.cat(part) for part in zip(*parts, strict=True)))
        if not found.mates.any() and not found.enemies.any():
            raise ContentError(
                f"nobody is on anybody's screen in {data.folder}, so there is nothing to learn about others; eyes need "
                "matches of `reel collect doom`, which tell who sees whom"
            )
        return found


def _seen(labels: Labels, rows: np.ndarray, plan: MapPlan) -> Iterator[tuple[np.ndarray, ...]]:
    """For each player: own place, heading, places of mates and of enemies on the screen."""
    players = places_of(plan, labels.position, labels.alive)[rows]
    monsters = places_of(plan, labels.enemy_position, labels.enemy_alive)[rows]
    count = len(plan.places)
    for player in range(players.shape[1]):
        ours = labels.team[rows] == labels.team[rows, player, None]
        on_screen = np.where(labels.sees_mate[rows, player], players, -1)
        foes = np.where(labels.sees_enemy[rows, player], monsters, -1)
        foes = np.concatenate([foes, np.where(ours, -1, on_screen)], axis=1)
        angle = labels.angle[rows, player]
        heading = (np.nan_to_num(angle) % 360 / (360 / HEADINGS)).astype(np.int64) % HEADINGS
        heading = np.where(np.isfinite(angle), heading, -1)
        mates = occupied(np.where(ours, on_screen, -1), count)
        yield players[:, player], heading, mates, occupied(foes, count)
