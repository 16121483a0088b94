"""The offline optimum: what a viewer who knew the whole trace would have chosen. The ceiling for every controller.

    plan = best_rungs(session)      plan.exact: nothing is better; else `plan.bound` says how much better it could be

Dynamic programming over chunks, three times. Roughly first, for a good plan (`label_search` with a coarse tolerance).
Then in the relaxed rule, where forgetting labels loses nothing, without those that cannot beat that plan any more
(`completion_bound`): what is best there bounds every plan. Mostly it is reached; if the real rule's steps keep it from
that, a last search in the real rule looks for what is. Every plan's total is from playing it in the real rule.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from reelrl.errors import ConfigError
from reelrl.stream.completion_bound import Bounds, bounds, hopes, timeline
from reelrl.stream.label_search import LABEL, distinct, expand, undominated
from reelrl.stream.simulator import rule
from reelrl.stream.simulator.packed import has_noise, pack_links
from reelrl.stream.simulator.qoe import chunk_reward

if TYPE_CHECKING:
    from reelrl.stream.controllers.protocol import EpisodeInfo, Observation
    from reelrl.stream.data.traces import Trace

Labels = npt.NDArray[np.void]
Floats = npt.NDArray[np.float64]

TOLERANCE = 1e-9  # two plans of equal worth differ by as much in their last bits
EXACT = 1e-6
COARSE = 1 / 10  # of what a chunk can be worth
MAX_LABELS = 2_000_000  # of all chunks together
ROUGH_LABELS = 20_000  # per chunk
MAX_ENTRIES = 8_000_000  # of the bounds' grid


@dataclass(frozen=True)
class Plan:
    """The rung of every chunk after the first, the sum of their rewards, and what no plan exceeds."""

    rungs: list[int]
    total: float
    bound: float

    @property
    def exact(self) -> bool:
        """Whether this is the optimum; else it is the best found."""
        return self.total >= self.bound - EXACT * max(1.0, abs(self.bound))


def best_rungs(session: EpisodeInfo, max_labels: int = MAX_LABELS) -> Plan:
    """The best plan for the session's trace, with as many labels as `max_labels` in each search."""
    if session.trace is None:
        raise ConfigError(
            "the optimum needs the true trace, and the session has none; run it as a privileged controller"
        )
    plan = _Search(session, session.trace, max_labels).plan()
    # Noise is drawn while the session runs: nobody can plan for it, and luck can beat this plan.
    return replace(plan, bound=np.inf) if has_noise(session.rule) else plan


class _Search:
    """One session's searches; they share the packed trace, the first chunk and the bounds."""

    def __init__(self, session: EpisodeInfo, trace: Trace, max_labels: int) -> None:
        self.video = session.video
        self.rule = session.rule._replace(noise_low=1.0, noise_high=1.0)
        self.links = pack_links([trace])
        self.utilities = session.qoe.utilities(self.video)
        self.smooth = session.qoe.smooth_penalty
        self.stall_penalty = session.qoe.stall_penalty
        self.chunk_ms = self.video.chunk_s * 1000.0
        self.first_rung = session.default_quality
        self.start = (0, float(self.links.edges_s[0]), 0.0)
        most = max(max_labels // self.video.chunks, 100)
        self.efforts = ((most // 8, MAX_ENTRIES // 32), (most, MAX_ENTRIES))
        got = self._download(0, self.first_rung, self.start)
        self.first = np.zeros(1, dtype=LABEL)
        self.first[0] = (got.slot, got.clock_s, got.buffer_ms, 0.0, 0.0, self.first_rung, -1)

    def plan(self) -> Plan:
        """Roughly, relaxed, and where these disagree once more in the real rule."""
        rungs, ceiling = self._if_chunks_took_no_time()
        spread = float(np.ptp(self.utilities, axis=1).max())
        best = _better(self._played(rungs), self._played(self._search(COARSE * spread, ROUGH_LABELS)[0]))
        best = replace(best, bound=ceiling)
        for labels, entries in self.efforts:
            if best.exact:
                break
            grid = self._bounds(ceiling - best.total, entries)
            found, bound = self._search(TOLERANCE, labels, grid, best.total, relaxed=True)
            best = replace(_better(best, self._played(found)), bound=min(bound, best.bound))
        if not best.exact:
            found, bound = self._search(TOLERANCE, labels, grid, best.total)
            best = replace(_better(best, self._played(found)), bound=min(bound, best.bound))
        return replace(best, bound=max(best.bound, best.total))

    def _search(
        self,
        tolerance: float,
        most_labels: int,
        grid: Bounds | None = None,
        floor: float = -np.inf,
        *,
        relaxed: bool = False,
    ) -> tuple[list[int], float]:
        """The best plan worth more than `floor` (none: no rungs), and a bound on all plans, infinite if there is none.

        Only in the relaxed rule is nothing lost with dominated labels; in the real one they stay while there is room.
        """
        labels, trail, bound = self.first, [], floor
        for chunk in range(1, self.video.chunks):
            labels = self._followed(labels, chunk, relaxed)
            hope = self._values(labels) + (0.0 if grid is None else hopes(grid, chunk, labels))
            keep = np.flatnonzero(hope > floor + TOLERANCE)
            if grid is not None and not relaxed and len(keep) <= most_labels // self.video.rungs:
                keep = keep[distinct(labels[keep])]
            elif chunk < self.video.chunks - 1:
                bound = bound if relaxed else np.inf
                some = labels[keep]
                keep = keep[undominated(some, self._values(some), self.utilities[chunk], self.smooth, tolerance)]
            if len(keep) > most_labels:
                keep = keep[np.argsort(-hope[keep])]
                bound = max(bound, float(hope[keep[most_labels]]) if grid else np.inf)
                keep = keep[:most_labels]
            labels = labels[keep]
            trail.append((labels["rung"].astype(np.uint8), labels["parent"].astype(np.int32)))
        if not len(labels):
            return [], bound
        values = self._values(labels)
        return _trace_back(trail, int(np.argmax(values))), max(bound, float(values.max()))

    def _followed(self, labels: Labels, chunk: int, relaxed: bool) -> Labels:
        """Every label followed by every rung."""
        followed: Labels = expand(
            labels,
            self.video.sizes_bytes[chunk],
            self.utilities[chunk],
            self.utilities[chunk - 1],
            self.chunk_ms,
            self.smooth,
            self.links,
            self.rule,
            relaxed,
        )
        return followed

    def _values(self, labels: Labels) -> Floats:
        values: Floats = labels["worth"] - self.stall_penalty / 1000.0 * labels["stall_ms"]
        return values

    def _bounds(self, room: float, entries: int) -> Bounds:
        """Bounds for plans that lose less than `room` by stalls."""
        most_stall_ms = 1000.0 * room / self.stall_penalty if self.stall_penalty else np.inf
        first = self.first[0]
        late_ms = -float(first["buffer_ms"])
        until_ms = self.video.chunks * self.chunk_ms + most_stall_ms - late_ms
        line = timeline(self.links, int(first["slot"]), float(first["clock_s"]), self.rule, until_ms)
        return bounds(
            line,
            late_ms,
            self.video.sizes_bytes,
            self.utilities,
            self.chunk_ms,
            self.rule.buffer_cap_ms,
            self.stall_penalty / 1000.0,
            self.smooth,
            most_stall_ms,
            entries,
        )

    def _if_chunks_took_no_time(self) -> tuple[list[int], float]:
        """The best rungs on a link without limits: no plan is worth more."""
        best, after = np.zeros(self.video.rungs), []
        for chunk in range(self.video.chunks - 1, 0, -1):
            now, last = self.utilities[chunk], self.utilities[chunk - 1]
            worth = best + now - self.smooth * np.abs(now - last[:, None])
            after.append(worth.argmax(axis=1))
            best = worth.max(axis=1)
        rungs = [self.first_rung]
        for choice in after[::-1]:
            rungs.append(int(choice[rungs[-1]]))
        return rungs[1:], float(best[self.first_rung])

    def _played(self, rungs: list[int]) -> Plan:
        """The plan with what it is worth in the real rule."""
        if not rungs:
            return Plan([], -np.inf, np.inf)
        place, last, total = self.start, self.first_rung, 0.0
        for chunk, rung in enumerate([self.first_rung, *rungs]):
            got = self._download(chunk, rung, place)
            place = (got.slot, got.clock_s, got.buffer_ms)
            if chunk:
                now, before = self.utilities[chunk, rung], self.utilities[chunk - 1, last]
                total += chunk_reward(now, before, got.stall_ms / 1000.0, self.stall_penalty, self.smooth)
            last = rung
        return Plan(rungs, float(total), np.inf)

    def _download(self, chunk: int, rung: int, place: tuple[int, float, float]) -> rule.Arrival:
        links = self.links
        size = float(self.video.sizes_bytes[chunk, rung])
        tables = (links.edges_s, links.bytes_per_s, links.latency_ms, 0, int(links.last[0]))
        return rule.download(*tables, *place, size, self.chunk_ms, 1.0, self.rule)


def _better(one: Plan, other: Plan) -> Plan:
    """The one that is worth more; the first of equals."""
    return other if other.total > one.total else one


def _trace_back(trail: list[tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]], index: int) -> list[int]:
    rungs: list[int] = []
    for chosen, parents in reversed(trail):
        rungs.append(int(chosen[index]))
        index = int(parents[index])
    return rungs[::-1]


class Oracle:
    """Plays the offline optimum of the session's own trace, or the best plan found: `exact` says which."""

    privileged = True

    def __init__(self, max_labels: int = MAX_LABELS) -> None:
        if max_labels < 1:
            raise ConfigError(f"max_labels = {max_labels}; give 1 or more")
        self.max_labels = max_labels

    @property
    def exact(self) -> bool:
        """Whether nothing better is possible in this session."""
        return self.plan.exact

    def reset(self, seed: int, episode: EpisodeInfo) -> None:  # noqa: ARG002 - the protocol's
        """Plan the whole session."""
        self.plan = best_rungs(episode, max_labels=self.max_labels)
        self._next = 0

    def act(self, observation: Observation) -> int:  # noqa: ARG002 - it knows what comes
        """The next rung of the plan."""
        rung = self.plan.rungs[self._next]
        self._next += 1
        return rung
