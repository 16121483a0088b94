"""What a net must beat: answers from true positions on screen, and from no picture at all.

    prior                          how often each place holds somebody
    own place                      the same, given where the watching player truly is
    sightings in the clip          where each one was when last on screen during the clip, and how such sightings age
    sightings in the whole match   the same with a memory of the whole match
    anonymous sightings            where those who watch are, and when somebody, whoever it was, was last on screen at
                                   each place
    oracle                         everybody is always seen: certain about now, and the best guess ahead

All are fitted on the training matches. Those that see are told the exact place of whoever is on screen, by the game and
not by pixels, so they are strong; what is unseen they fill from how often it happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from reelrl.act.location.baselines.linear_reader import LinearReading
from reelrl.act.location.model.net import HEADS
from reelrl.act.location.samples import Marks, Moments, Places, occupied, places_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reelrl.act.location.answers import Answers
    from reelrl.act.location.samples import SampleSettings
    from reelrl.act.recording.labels import Labels
    from reelrl.act.recording.maps import MapPlan
    from reelrl.act.recording.reader import Matches


Floats = NDArray[np.float64]

# A sighting's age, rounded down to one of these; on screen now is more than half a second ago.
AGES_S = (0.0, 0.1, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
_MOST_SEEN = 4  # more sightings than that are counted as so many
_DOUBT = 4.0  # how many cases the general frequency is worth beside those of one kind


class LocationBaseline(Protocol):
    """Fitted on moments and the players that watch them; answers about others."""

    def fit(self, moments: Moments, pov: Marks) -> None: ...
    def answer(self, moments: Moments, pov: Marks) -> Answers: ...


class Prior:
    """How often each place holds somebody."""

    def fit(self, moments: Moments, pov: Marks) -> None:
        self.share = {head: marks.mean(0) for head, marks in moments.targets(pov).items()}

    def answer(self, moments: Moments, pov: Marks) -> Answers:
        del pov
        return {head: np.tile(share.astype(np.float32), (len(moments), 1)) for head, share in self.share.items()}


class OwnPlace:
    """How often each place holds somebody when one who watches is at a place."""

    def fit(self, moments: Moments, pov: Marks) -> None:
        own, places = self._own(moments, pov), moments.places
        self.share = {}
        for head, marks in moments.targets(pov).items():
            sums = np.stack([marks[own == place].sum(0) for place in range(-1, places)])
            cases = np.array([(own == place).sum() for place in range(-1, places)])
            self.share[head] = (sums + _DOUBT * marks.mean(0)) / (cases[:, None] + _DOUBT)

    def answer(self, moments: Moments, pov: Marks) -> Answers:
        own = self._own(moments, pov) + 1
        return {head: share[own].astype(np.float32) for head, share in self.share.items()}

    def _own(self, moments: Moments, pov: Marks) -> Places:
        own: Places = moments.player_places[np.arange(len(moments)), pov.argmax(1)]
        return own


@dataclass(frozen=True, eq=False)
class Sightings:
    """Who was where in one match, and who was last on whose screen when; J is players, then enemies."""

    where: Places
    """[rows, J]."""
    team: NDArray[np.int64]
    """[rows, J]; monsters are of team -1."""
    last: NDArray[np.int64]
    """[rows, observers, J]: the row of the last sighting, -1 before the first."""
    seen_at: Places
    """[rows, observers, J]: where that was."""
    own: Places
    """[rows, observers]: where those are who watch, for all that they know."""

    @classmethod
    def of(cls, labels: Labels, plan: MapPlan) -> Sightings:
        there = np.concatenate([labels.alive, labels.enemy_alive], axis=1)
        position = np.concatenate([labels.position, labels.enemy_position], axis=1)
        seen = np.concatenate([labels.sees_mate, labels.sees_enemy], axis=2) & there[:, None] & labels.alive[..., None]
        rows = np.where(seen, np.arange(len(seen))[:, None, None], -1)
        monsters = np.full(labels.enemy_alive.shape, -1)
        where, last = places_of(plan, position, there), np.maximum.accumulate(rows, axis=0)
        team = np.concatenate([labels.team.astype(np.int64), monsters], axis=1)
        seen_at = np.where(last >= 0, where[last, np.arange(where.shape[1])], -1)
        return cls(where, team, last, seen_at, where[:, : labels.alive.shape[1]])


class _Asked(NamedTuple):
    """About `moments` [n] of one match: of everybody [n, J], whether seen, how long ago, where then, where truly."""

    moments: NDArray[np.int64]
    known: Marks
    age: Places
    """Numbers of AGES_S."""
    seen_at: Places
    true_place: Places

    @property
    def number_seen(self) -> NDArray[np.int64]:
        """How many were seen [n], up to _MOST_SEEN."""
        return np.asarray(np.minimum(self.known.sum(1), _MOST_SEEN))


class LastSighting:
    """Where each one was when last on the watching players' screens; those know of themselves.

    `memory_rows` is how old a sighting may be (None: any age). `everybody` is the oracle: all are always on screen.
    """

    def __init__(
        self,
        data: Matches,
        plan: MapPlan,
        samples: SampleSettings,
        memory_rows: int | None,
        *,
        everybody: bool = False,
    ) -> None:
        self.data, self.plan, self.everybody = data, plan, everybody
        self.memory_rows = 10**9 if memory_rows is None else memory_rows
        self.ages = np.array(AGES_S) * data.rows_per_second
        self.ahead_rows = {"now": 0, "ahead": max(1, round(samples.ahead_s * data.rows_per_second))}
        self._sightings: dict[str, Sightings] = {}

    def fit(self, moments: Moments, pov: Marks) -> None:
        self.moved = {head: self._ageing(moments, pov, head) for head in HEADS}
        self.unseen = {head: self._never_seen(moments, pov, head) for head in HEADS}

    def answer(self, moments: Moments, pov: Marks) -> Answers:
        answers = {head: np.empty((len(moments), len(self.plan.places)), np.float32) for head in HEADS}
        for head in HEADS:
            for asked in self._asked(moments, pov, head):
                there = self.moved[head][asked.age, asked.seen_at, :-1] * asked.known[..., None]
                nobody = (1 - there).prod(1) * (1 - self.unseen[head][asked.number_seen])
                answers[head][asked.moments] = 1 - nobody
        return answers

    def _ageing(self, moments: Moments, pov: Marks, head: str) -> Floats:
        """Chance of each place, and of nowhere, by the age and the place of a sighting: [ages, places, places + 1]."""
        places = len(self.plan.places)
        moved = np.zeros((len(AGES_S), places, places + 1))
        for asked in self._asked(moments, pov, head):
            np.add.at(moved, (asked.age[asked.known], asked.seen_at[asked.known], asked.true_place[asked.known]), 1)
        prior = moved.sum((0, 1)) + 1e-6
        moved += (0.02 if self.everybody else _DOUBT) * prior / prior.sum()
        return np.asarray(moved / moved.sum(-1, keepdims=True))

    def _never_seen(self, moments: Moments, pov: Marks, head: str) -> Floats:
        """Chance that a place holds somebody who was not seen, by how many were: [number seen, places]."""
        places = len(self.plan.places)
        there, cases = np.zeros((_MOST_SEEN + 1, places)), np.zeros(_MOST_SEEN + 1)
        for asked in self._asked(moments, pov, head):
            hidden = occupied(np.where(asked.known, -1, asked.true_place), places)
            np.add.at(there, asked.number_seen, hidden)
            np.add.at(cases, asked.number_seen, 1)
        prior = there.sum(0) / max(cases.sum(), 1)
        return np.asarray((there + _DOUBT * prior) / (cases[:, None] + _DOUBT))

    def _asked(self, moments: Moments, pov: Marks, head: str) -> Iterator[_Asked]:
        """Match by match: whom a head asks about, when and where each was last seen, and where each truly is."""
        ahead = self.ahead_rows[head.rpartition("_")[2]]
        for match in np.unique(moments.match):
            indices = np.flatnonzero(moments.match == match)
            sightings, rows = self.sightings(moments.take(indices)), moments.row[indices]
            players = sightings.last.shape[1]
            watching = pov[indices, :players]
            ours = sightings.team[rows] == moments.side[indices, None]
            if head.startswith("mates"):
                alone = np.zeros_like(ours)
                alone[:, :players] = watching & (watching.sum(1, keepdims=True) == 1)
                wanted = ours & ~alone
            else:
                wanted = ~ours
            true_place = np.where(wanted, sightings.where[rows + ahead], -1)
            last = np.where(watching[..., None], sightings.last[rows], -1)
            newest = last.argmax(1)[:, None]
            seen_at = np.take_along_axis(sightings.seen_at[rows], newest, 1)[:, 0]
            last = np.take_along_axis(last, newest, 1)[:, 0]
            last[:, :players] = np.where(watching, rows[:, None], last[:, :players])  # who watches knows where it is
            seen_at[:, :players] = np.where(watching, sightings.own[rows], seen_at[:, :players])
            if self.everybody:
                last, seen_at = np.where(sightings.where[rows] >= 0, rows[:, None], -1), sightings.where[rows]
            age = rows[:, None] - last
            known = wanted & (last >= 0) & (age <= self.memory_rows) & (seen_at >= 0)
            kind = np.searchsorted(self.ages, age, side="right") - 1
            yield _Asked(indices, known, kind, seen_at, true_place)

    def sightings(self, moments: Moments) -> Sightings:
        """Of the match that these moments are of."""
        match = moments.matches[moments.match[0]].id
        if match not in self._sightings:
            self._sightings[match] = Sightings.of(self.data.match(match).labels, self.plan)
        return self._sightings[match]


class AnonymousSightings:
    """What a perfect frame reader that knows no names would tell, in the whole match, through one linear layer.

    Where those who watch are, and how long ago a mate, and an enemy, was last on their screens at each place.
    """

    def __init__(self, data: Matches, plan: MapPlan) -> None:
        self.data, self.plan, self.reading = data, plan, LinearReading()
        self.ages = np.array(AGES_S) * data.rows_per_second
        self._last: dict[tuple[str, int], NDArray[np.int64]] = {}

    def fit(self, moments: Moments, pov: Marks) -> None:
        self.reading.fit(self._known(moments, pov), moments.targets(pov))

    def answer(self, moments: Moments, pov: Marks) -> Answers:
        return self.reading.answer(self._known(moments, pov))

    def _known(self, moments: Moments, pov: Marks) -> NDArray[np.float32]:
        ages = [np.eye(len(AGES_S) + 1)[self._kinds(moments, pov, mates=mates)] for mates in (True, False)]
        parts = [each.reshape(len(moments), -1) for each in ages] + [own_places(moments, pov)]
        return np.concatenate(parts, axis=1).astype(np.float32)

    def _kinds(self, moments: Moments, pov: Marks, *, mates: bool) -> NDArray[np.int64]:
        """Numbers of AGES_S [N, places]; one more where nobody was seen yet."""
        kind = np.empty((len(moments), len(self.plan.places)), np.int64)
        for match, side in np.unique(np.stack([moments.match, moments.side]), axis=1).T:
            indices = np.flatnonzero((moments.match == match) & (moments.side == side))
            last = self._seen(moments.matches[match].id, int(side), mates=mates)
            watching, rows = pov[indices, : last.shape[1], None], moments.row[indices]
            newest = np.where(watching, last[rows], -1).max(1)
            kinds = np.searchsorted(self.ages, rows[:, None] - newest, side="right") - 1
            kind[indices] = np.where(newest >= 0, kinds, len(AGES_S))
        return kind

    def _seen(self, match: str, side: int, *, mates: bool) -> NDArray[np.int64]:
        """The last row [rows, observers, places] in which one of the side, or one of the others, was seen there."""
        key = (match, 2 * side + mates)
        if key not in self._last:
            sightings = Sightings.of(self.data.match(match).labels, self.plan)
            now = np.arange(len(sightings.where))[:, None, None]
            wanted = (sightings.team == side) == mates
            where = np.where((sightings.last == now) & wanted[:, None], sightings.where[:, None], -1)
            rows = np.where(occupied(where, len(self.plan.places)), now, -1)
            self._last[key] = np.maximum.accumulate(rows, axis=0)
        return self._last[key]


def own_places(moments: Moments, pov: Marks) -> Marks:
    """Which places [N, places] hold one of those who watch."""
    return occupied(np.where(pov, moments.player_places, -1), moments.places)


def baselines(data: Matches, plan: MapPlan, samples: SampleSettings, *, one_view: bool) -> dict[str, LocationBaseline]:
    """By name; whose place is one's own can be asked of one only."""
    named: dict[str, LocationBaseline] = {"prior": Prior()}
    if one_view:
        named["own place"] = OwnPlace()
    return named | {
        "sightings in the clip": LastSighting(data, plan, samples, samples.first_row),
        "sightings in the whole match": LastSighting(data, plan, samples, None),
        "anonymous sightings": AnonymousSightings(data, plan),
        "oracle": LastSighting(data, plan, samples, None, everybody=True),
    }
