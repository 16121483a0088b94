"""Matches side by side: one memory for all, steps that are started for some while others are being played.

batch = MatchBatch(config, seeds, slots=129, max_steps=375)
batch.start([0, 1], actions, slot=1)            # the engines of matches 0 and 1 run from here on
batch.start([2, 3], other_actions, slot=1)
ends = batch.finish([0, 1])                     # rewards and ends; pictures are in memory.pictures[1, :2]
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reelrl import seeding
from reelrl.act.doom.env import player_rewards, since_start
from reelrl.act.doom.match import Match
from reelrl.act.doom.player_process import GOAL_REACHED, WENT_ON
from reelrl.act.doom.shared_memory import MatchMemory
from reelrl.parallel.executor import cores

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from reelrl.act.doom.settings import VZCoopConfig


class StepEnds(NamedTuple):
    """What a step brought to each of some matches; rewards (matches, players)."""

    reward: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]

    @property
    def done(self) -> NDArray[np.bool_]:
        return self.terminated | self.truncated


class MatchBatch:
    """A match per seed, started together. An error of one names it and ends all.

    An `episode` is given where every one of them is to be played in engines of its own, this one first: they repeat to
    the byte, with up to two players, and take a second or two to start.
    """

    def __init__(
        self,
        config: VZCoopConfig,
        seeds: Sequence[int],
        *,
        slots: int,
        max_steps: int | None = None,
        sightings: bool = False,
        episode: int | None = None,
    ) -> None:
        self.config, self.max_steps, self._sightings = config, max_steps, sightings
        self._seeds, self._own_engines = seeds, episode is not None
        self._episodes = [episode or 0 for _ in seeds]
        self.memory = MatchMemory(
            config.num_players, *config.picture_size, sightings=sightings, matches=len(seeds), slots=slots
        )
        self.matches: list[Match] = []
        try:
            self.matches = self._started(range(len(seeds)), slot=0)
        except BaseException:
            self.memory.close()
            raise
        self._steps = np.zeros(len(seeds), int)
        self._facts = self.memory.facts.copy()
        self._first = self._facts.copy()

    @property
    def facts(self) -> NDArray[np.float64]:
        """(matches, players, facts) after each match's last step; counters are from the episode's start on."""
        return since_start(self._facts, self._first)

    def start(self, places: Sequence[int], actions: NDArray[np.integer], slot: int) -> None:
        """Begin a step of some matches with actions (matches, players); its pictures go to `slot`."""
        for place, chosen in zip(places, actions.tolist(), strict=True):
            self.matches[place].start_step(chosen, slot)

    def finish(self, places: Sequence[int]) -> StepEnds:
        """Wait for the step of these matches."""
        outcomes = [self.matches[place].finish() for place in places]
        before, after = self._facts[places], self.memory.facts[places]
        self._facts[places] = after
        self._steps[places] += 1
        terminated = np.array([outcome == GOAL_REACHED for outcome in outcomes])
        over = np.array([outcome != WENT_ON for outcome in outcomes])
        if self.max_steps is not None:
            over |= self._steps[places] == self.max_steps
        reward = player_rewards(before, after, self.config, goal=terminated)
        return StepEnds(reward, terminated, over & ~terminated)

    def new_episodes(self, places: Sequence[int], slot: int) -> None:
        """Begin anew in some matches, all at the same time; their first pictures go to `slot`."""
        if self._own_engines:
            for place in places:
                self.matches[place].close()
                self._episodes[place] += 1
            for place, match in zip(places, self._started(places, slot), strict=True):
                self.matches[place] = match
        else:
            for place in places:
                self.matches[place].start_episode(slot)
            for place in places:
                self.matches[place].finish()
        for place in places:
            self._facts[place] = self._first[place] = self.memory.facts[place]
            self._steps[place] = 0

    def close(self) -> None:
        """End all processes. A second call does nothing."""
        for match in self.matches:
            match.close()
        self.memory.close()

    def _started(self, places: Sequence[int], slot: int) -> list[Match]:
        """Engines for some matches, started at the same time."""
        with ThreadPoolExecutor(min(len(places), cores())) as pool:
            starting = [pool.submit(self._start, place, slot) for place in places]
        try:
            return [each.result() for each in starting]
        except BaseException:
            for each in starting:
                if each.exception() is None:
                    each.result().close()
            raise

    def _start(self, place: int, slot: int) -> Match:
        # The first one as an environment that is reset with this seed starts its engines.
        number = [self._episodes[place]] if self._episodes[place] else []
        engine_seed = int(seeding.stream(self._seeds[place], "doom", *number).integers(2**31))
        return Match(self.config, engine_seed, sightings=self._sightings, memory=self.memory, place=place, slot=slot)
