"""A cluster on paper: tasks of known lengths, handed out in their order to the first core that is free."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class ClusterModel:
    """What delays tasks.

    cores             that work
    overhead_s        of handing out a task and taking its record
    straggler_share   of tasks that take `straggler_factor` times as long: a slow disk, a neighbour on the machine
    failures_per_h    of a core: the task under way is lost and begun again, the core is back after `restart_s`
    cache_hits        share of tasks whose result is there already
    """

    cores: int
    overhead_s: float = 0.0
    straggler_share: float = 0.0
    straggler_factor: float = 3.0
    failures_per_h: float = 0.0
    restart_s: float = 60.0
    cache_hits: float = 0.0

    def wall_s(self, task_s: Sequence[float], seed: int = 0) -> float:
        """When the last record is there."""
        chance = random.Random(seed)
        free = [(0.0, core) for core in range(self.cores)]
        heapq.heapify(free)
        end_s = 0.0
        for length_s in task_s:
            at_s, core = heapq.heappop(free)
            if chance.random() >= self.cache_hits:
                at_s = self._worked(at_s, length_s, chance)
            at_s += self.overhead_s
            end_s = max(end_s, at_s)
            heapq.heappush(free, (at_s, core))
        return end_s

    def _worked(self, at_s: float, length_s: float, chance: random.Random) -> float:
        if chance.random() < self.straggler_share:
            length_s *= self.straggler_factor
        while self.failures_per_h:
            fails_after_s = chance.expovariate(self.failures_per_h / 3600)
            if fails_after_s >= length_s:
                break
            at_s += fails_after_s + self.restart_s
        return at_s + length_s
