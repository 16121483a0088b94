"""Direct search: code the clip again and again, keep what was better. An oracle: no encoder has that many passes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from reelrl.encode.minigop.controllers.rules import FixedDeltas, RateModel
from reelrl.encode.minigop.protocols import OCTAVES_PER_QP
from reelrl.encode.minigop.reference import RdCurve
from reelrl.encode.minigop.run import run_controller
from reelrl.encode.minigop.source.preparation import HEADROOM
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from reelrl.encode.minigop.protocols import MiniGopEpisode, Situation
    from reelrl.encode.minigop.run import MiniGopRun
    from reelrl.encode.minigop.source.in_process import InProcessSource
    from reelrl.encode.minigop.source.preparation import Preparation


class DirectSearch:
    """Coordinate search over the deltas: mini-GOP by mini-GOP a step up, a step down, as long as one of them pays.

    A step pays when the PSNR is higher than the encoder's own curve gives for the bits it changed. The search begins
    with the better of two allocations on budget, the encoder's own and the rate model's, and never ends below it.
    `study` hands over the clip; `reset` then searches for the episode's budget. `encodes` counts the passes that took.
    """

    privileged = True

    def __init__(self, *steps: float) -> None:
        self.steps = steps or (2.0, 1.0)
        self.encodes = 0
        self.deltas: tuple[float, ...] = ()
        self._prepared: Preparation | None = None

    def study(self, prepared: Preparation, headroom: int = HEADROOM) -> None:
        """What a real controller never has: the clip itself, to be coded at will."""
        self._prepared, self._headroom = prepared, headroom
        self._seen: dict[tuple[float, ...], MiniGopRun] = {}

    def reset(self, seed: int, episode: MiniGopEpisode) -> None:
        del seed  # nothing here is left to chance
        self._episode, self.encodes = episode, 0
        source = self._source()
        source.close()
        self._curve = RdCurve(source.clip, replace(source.settings, qp=source.start_qp, picture_qp=False))
        alike = (0.0,) * len(self._curve.bits)
        start = max(self._on_budget(alike), self._on_budget(self._by_rate_model()), key=self._score)
        self.deltas = max(start, self._on_budget(self._searched(start)), key=self._score)

    def act(self, situation: Situation) -> float:
        return self.deltas[situation.request.mg]

    def _by_rate_model(self) -> tuple[float, ...]:
        self.encodes += 1
        return run_controller(self._source(), RateModel()).deltas

    def _searched(self, best: tuple[float, ...]) -> tuple[float, ...]:
        score = self._score(best)
        for step in self.steps:
            improved = True
            while improved:
                improved = False
                for mg in range(len(best)):
                    for move in (step, -step):
                        tried = (*best[:mg], best[mg] + move, *best[mg + 1 :])
                        if (tried_score := self._score(tried)) > score:
                            best, score, improved = tried, tried_score, True
                            break
        return best

    def _score(self, deltas: tuple[float, ...]) -> float:
        run = self._run(deltas)
        return run.psnr_y - self._curve.psnr_at(run.bits)

    def _on_budget(self, deltas: tuple[float, ...]) -> tuple[float, ...]:
        """The same differences, moved up or down until the budget is met to one per cent."""
        for _ in range(4):
            off = self._run(deltas).rate_error
            if abs(off) < 0.01:
                break
            move = round(math.log2(1 + off) / OCTAVES_PER_QP, 2)
            deltas = tuple(delta + move for delta in deltas)
        return deltas

    def _run(self, deltas: tuple[float, ...]) -> MiniGopRun:
        if deltas not in self._seen:
            run = run_controller(self._source(), FixedDeltas(deltas))
            self._seen[deltas] = replace(run, packets=())
            self.encodes += 1
        return self._seen[deltas]

    def _source(self) -> InProcessSource:
        if self._prepared is None:
            raise ConfigError("the direct search needs the clip; call study(Preparation(clip, settings)) first")
        episode = self._episode
        return self._prepared.source(
            kbps=episode.kbps, goal=episode.goal, buffer_s=episode.buffer_s, headroom=self._headroom
        )
