"""The moments of recorded matches that the net is asked about: who watches, and who is where, now and later.

    moments = Moments.of(data, data.matches, settings, plan)
    moments.targets(pov)["mates_now"]       # [N, places]: 1 where a living mate is

A moment is one row of a match, seen by one side. Its clip is `frames` rows that end there, `stride` apart. A player
takes part while alive in all of them; one who is dead is at no place. Players of another side count as enemies, as
monsters do. Positions are read here to make targets and go no further. `epoch_batches` says which moments meet in a
batch, `random_views` in whose views.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reelrl.act.location.model.net import HEADS
from reelrl.act.recording.reader import MatchInfo
from reelrl.errors import ConfigError, ContentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.act.recording.labels import Labels
    from reelrl.act.recording.maps import MapPlan
    from reelrl.act.recording.reader import Matches

Places = NDArray[np.int64]
"""Numbers of places; -1 is nowhere."""
Marks = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class SampleSettings:
    """Which rows a clip is made of, and how far ahead the net looks."""

    frames: int = 8
    """Of a clip."""
    stride: int = 4
    """Rows between the frames of a clip, and between moments."""
    ahead_s: float = 2.0

    def __post_init__(self) -> None:
        for name in ("frames", "stride"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; give 1 or more")
        if not 0 < self.ahead_s < 600:
            raise ConfigError(f"ahead_s is {self.ahead_s}; give seconds above 0")

    @property
    def first_row(self) -> int:
        """The first row with a whole clip behind it."""
        return (self.frames - 1) * self.stride

    def clip_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows [..., frames] of the clips that end at `rows`, oldest first."""
        return rows[..., None] - self.stride * np.arange(self.frames)[::-1]


@dataclass(frozen=True, eq=False)
class Moments:
    """N moments of several matches; A is the largest number of players in a match."""

    match: NDArray[np.int64]
    """[N], positions in `matches`."""
    row: NDArray[np.int64]
    side: NDArray[np.int64]
    """[N], the team that watches."""
    present: Marks
    """[N, A], who watches."""
    player_places: Places
    """[N, A], of those of the side who live."""
    player_places_ahead: Places
    enemy_places: Places
    """[N, E], of those who live: monsters, then players of another side. E is the largest number in a match."""
    enemy_places_ahead: Places
    places: int
    """Of the map; 0 where it is not the one that is known."""
    matches: tuple[MatchInfo, ...]

    def __len__(self) -> int:
        return len(self.row)

    @classmethod
    def of(cls, data: Matches, matches: Sequence[MatchInfo], settings: SampleSettings, plan: MapPlan | None) -> Moments:
        """The moments of some matches; without a plan (another map than the net knows) everybody is nowhere."""
        ahead = max(1, round(settings.ahead_s * data.rows_per_second))
        agents = max((info.players for info in matches), default=1)
        parts = [
            part
            for number, info in enumerate(matches)
            for part in _match_moments(data.match(info.id).labels, number, settings, ahead, agents, plan)
        ]
        if not sum(len(part["row"]) for part in parts):
            longest = max((info.frames for info in matches), default=0)
            raise ContentError(
                f"{len(matches)} matches in {data.folder} give no moment (the longest has {longest} rows, "
                f"{settings.first_row + ahead + 1} are needed); record longer ones, or shorten the clips"
            )
        most = max(part["enemy_places"].shape[1] for part in parts)
        for part in parts:
            missing = most - part["enemy_places"].shape[1]
            for name in ("enemy_places", "enemy_places_ahead"):
                part[name] = np.pad(part[name], ((0, 0), (0, missing)), constant_values=-1)
        arrays = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return cls(**arrays, places=len(plan.places) if plan else 0, matches=tuple(matches))

    def take(self, chosen: NDArray[Any]) -> Moments:
        """Some of the moments, in the order given."""
        arrays = {each.name: getattr(self, each.name) for each in fields(self)}
        some = {name: array[chosen] for name, array in arrays.items() if isinstance(array, np.ndarray)}
        return replace(self, **some)

    def targets(self, pov: Marks) -> dict[str, Marks]:
        """What the heads should answer to the views of `pov` [N, A]: [N, places] each.

        A mate is who has a mate among them: with one player watching all the others, with two or more everybody.
        """
        alone = pov & (pov.sum(1, keepdims=True) == 1)
        asked = (
            np.where(alone, -1, self.player_places),
            self.enemy_places,
            np.where(alone, -1, self.player_places_ahead),
            self.enemy_places_ahead,
        )
        return dict(zip(HEADS, (occupied(where, self.places) for where in asked), strict=True))

    def single_views(self) -> tuple[Moments, Marks]:
        """Every moment once for each player present, and whose view [M, A] it is seen in."""
        number, agent = np.nonzero(self.present)
        return self.take(number), np.eye(self.present.shape[1], dtype=bool)[agent]


def occupied(where: Places, places: int) -> Marks:
    """Which places [..., places] hold somebody, given where each one is [..., entities]."""
    marks: Marks = (where[..., None] == np.arange(places)).any(-2)
    return marks


def places_of(plan: MapPlan | None, position: NDArray[Any], there: Marks) -> Places:
    """The place of each position [..., 3] that is marked; elsewhere -1."""
    if plan is None:
        return np.full(there.shape, -1)
    known = np.where(there[..., None], position, 0.0)
    return np.where(there, plan.place_of(known[..., 0], known[..., 1]), -1)


def _match_moments(
    labels: Labels, number: int, settings: SampleSettings, ahead: int, agents: int, plan: MapPlan | None
) -> Sequence[dict[str, NDArray[Any]]]:
    """Of one match, a part for each side in it; moments with nobody to watch are left out."""
    rows = np.arange(settings.first_row, len(labels.tic) - ahead, settings.stride)
    missing = agents - labels.alive.shape[1]
    alive = np.pad(labels.alive, ((0, 0), (0, missing)))
    team = np.pad(labels.team, ((0, 0), (0, missing)), constant_values=-1)
    players = np.pad(places_of(plan, labels.position, labels.alive), ((0, 0), (0, missing)), constant_values=-1)
    monsters = places_of(plan, labels.enemy_position, labels.enemy_alive)
    parts = []
    for side in np.unique(labels.team[rows][labels.alive[rows]]):
        ours = team == side
        present = (alive & ours)[settings.clip_rows(rows)].all(1)
        foes = np.concatenate([monsters, np.where(ours, -1, players)], axis=1)
        mates = np.where(ours, players, -1)
        part = {
            "match": np.full(len(rows), number),
            "row": rows,
            "side": np.full(len(rows), side),
            "present": present,
            "player_places": mates[rows],
            "player_places_ahead": mates[rows + ahead],
            "enemy_places": foes[rows],
            "enemy_places_ahead": foes[rows + ahead],
        }
        watched = present.any(1)
        parts.append({name: values[watched] for name, values in part.items()})
    return parts


def epoch_batches(
    moments: Moments, rng: np.random.Generator, *, matches: int, of_each: int, apart_rows: int
) -> list[NDArray[np.int64]]:
    """All moments once, in batches of up to `of_each` moments of each of up to `matches` matches, in a new order.

    Moments of a match in one batch are of one side, and at least `apart_rows` apart. Views of other matches are easy to
    tell apart, by the hour of the match or who is alive: the negatives that teach are other moments of the same match.
    Those near in time show nearly the same, so they never meet.
    """
    waiting: dict[int, list[NDArray[np.int64]]] = defaultdict(list)
    for match, side in np.unique(np.stack([moments.match, moments.side]), axis=1).T:
        indices = np.flatnonzero((moments.match == match) & (moments.side == side))
        # Rows that leave the same remainder are at least `apart_rows` apart.
        remainder = moments.row[indices] % apart_rows
        for group in np.unique(remainder):
            order = rng.permutation(indices[remainder == group])
            waiting[int(match)] += [order[start : start + of_each] for start in range(0, len(order), of_each)]
    for chunks in waiting.values():
        rng.shuffle(chunks)
    batches: list[NDArray[np.int64]] = []
    while waiting:
        names = rng.permutation(sorted(waiting))
        parts = np.split(names, range(matches, len(names), matches))
        batches += [np.concatenate([waiting[name].pop() for name in part]) for part in parts]
        waiting = defaultdict(list, {name: chunks for name, chunks in waiting.items() if chunks})
    return batches


def random_views(present: Marks, rng: np.random.Generator, wanted: int | None = None) -> Marks:
    """Whose views [N, A] are used for an answer: `wanted` of those present, or all if they are fewer.

    None: one player's in half of the moments, else any number of them.
    """
    lots = np.where(present, rng.random(present.shape), 2.0)
    count = np.where(rng.random(len(present)) < 0.5, 1, rng.integers(1, present.sum(1) + 1))
    if wanted is not None:
        count = np.full(len(present), wanted)
    ranks = lots.argsort(1).argsort(1)
    return present & (ranks < count[:, None])
