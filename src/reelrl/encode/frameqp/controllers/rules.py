"""Deciding the quantisers of frames by rule."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reelrl.encode.frameqp.protocols import FrameQpEpisode, FrameSituation, PlannedFrame

# Steps of the quantiser index to make up for bits that came out otherwise: the last frames must not pay for all.
_LARGEST_CHASE, _LARGEST_MOVE = 10.0, 1.0
_TOLERATED = 0.012  # of the budget: quantisers that go up and down for less cost more than they are worth
_PRIOR = 0.15  # of the plan's bits: by how much of it the first frames must be believed to be usual


class OwnQuantisers:
    """libaom's own quantisers at the budget, moved by `delta` steps: whatever they come to."""

    privileged = False

    def __init__(self, delta: float = 0.0) -> None:
        self.delta = delta

    def reset(self, seed: int, episode: FrameQpEpisode) -> None:
        """Nothing to prepare."""

    def act(self, situation: FrameSituation) -> float:  # noqa: ARG002 - it looks at nothing
        return self.delta


class FrameRateModel:
    """Meets the budget with the allocation of constant quality: one number for all frames, solved before each.

    pyramid  1 leaves the distance of layers as libaom has it; 1.1 takes ARFs a tenth further below the leaves
    key      steps that key frames are finer
    """

    privileged = False

    def __init__(self, pyramid: float = 1.0, key: float = 0.0) -> None:
        self.pyramid, self.key = pyramid, key

    def reset(self, seed: int, episode: FrameQpEpisode) -> None:
        del seed  # nothing here is left to chance
        self._per_step = episode.octaves_per_step
        shapes = self.shapes(episode)
        self._offsets = {(each.frame, each.kind): by for each, by in zip(episode.plan, shapes, strict=True)}
        shaped = sum(each.bits * math.exp2(-self._per_step * by) for each, by in zip(episode.plan, shapes, strict=True))
        planned = sum(each.bits for each in episode.plan)
        # What the shape costs or saves is made up for by all frames alike.
        self._level = math.log2(shaped / planned) / self._per_step
        self._planned = planned
        self._chase = 0.0
        self._expected = self._spent = self._shift = 0.0
        self._known = 0

    def shapes(self, episode: FrameQpEpisode) -> list[float]:
        """How far each planned frame is moved, in steps; a number that all have in common changes nothing."""
        leaf = max(each.qindex for each in episode.plan)
        return [
            (self.pyramid - 1) * (each.qindex - leaf) - (self.key if each.kind == "key" else 0.0)
            for each in episode.plan
        ]

    def act(self, situation: FrameSituation) -> float:
        request = situation.request
        for done, own, delta in zip(
            situation.history[self._known :], situation.own[self._known :], situation.deltas[self._known :], strict=True
        ):
            self._expected += own.bits * math.exp2(-self._per_step * delta)
            self._spent += done.bits
            self._shift += self._shaped(own) - own.bits
        self._known = len(situation.history)
        prior = _PRIOR * self._planned
        scale = (self._spent + prior) / (self._expected + prior)
        # What the shape has moved from frames that are done to those that are not is still to be spent.
        rest = scale * max(request.rest_bits - self._shift, self._shaped(request.own))
        gap = rest - request.bits_left
        gap -= min(max(gap, -_TOLERATED * self._planned), _TOLERATED * self._planned)
        left = max(rest - gap, 0.25 * rest)
        wanted = math.log2(rest / left) / self._per_step if rest > 0 else 0.0
        moved = min(max(wanted, self._chase - _LARGEST_MOVE), self._chase + _LARGEST_MOVE)
        self._chase = min(max(moved, -_LARGEST_CHASE), _LARGEST_CHASE)
        return self._level + self._shape(request.own) + self._chase

    def _shaped(self, own: PlannedFrame) -> float:
        """Bits of a frame as planned, in the shape that is wanted."""
        return own.bits * math.exp2(-self._per_step * (self._level + self._shape(own)))

    def _shape(self, own: PlannedFrame) -> float:
        return self._offsets.get((own.frame, own.kind), 0.0)
