"""The rule that meets a bitrate, in a world where bits follow its model and one where they do not quite."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import floats, integers

from reelrl.encode.codecs.aom.gops import FrameToCode
from reelrl.encode.codecs.aom.steered_encode import CodedFrame
from reelrl.encode.frameqp.controllers.rules import FrameRateModel
from reelrl.encode.frameqp.protocols import FrameQpEpisode, FrameRequest, FrameSituation, PlannedFrame

PER_STEP = 0.02


def world(seed: int, frames: int = 80) -> tuple[PlannedFrame, ...]:
    rng = np.random.default_rng(seed)
    plan = [PlannedFrame(0, "key", 0, 90.0, 20000.0)]
    for number in range(1, frames):
        arf = number % 16 == 1
        bits = float(rng.uniform(3000, 6000) if arf else rng.uniform(200, 1200))
        plan.append(PlannedFrame(number, "arf" if arf else "leaf", 1 if arf else 6, 110.0 if arf else 150.0, bits))
    return tuple(plan)


def spent(rule: FrameRateModel, plan: tuple[PlannedFrame, ...], scale: float, noise: float, seed: int) -> list[float]:
    """Bits of each frame where each costs `scale` of what was planned, and now and then more."""
    rng = np.random.default_rng(seed)
    budget = sum(each.bits for each in plan)
    first_pass = np.zeros((len(plan), 30))
    episode = FrameQpEpisode("", 64, 64, len(plan), Fraction(30), 1.0, budget, plan, 1, PER_STEP, first_pass)
    rule.reset(0, episode)
    situation = FrameSituation(episode, None)  # type: ignore[arg-type]
    rest, bits = budget, list[float]()
    for number, own in enumerate(plan):
        coming = FrameToCode(number, own.frame, 0, 16, own.kind, own.layer)
        situation.request = FrameRequest(coming, own, budget - sum(bits), rest)
        delta = rule.act(situation)
        bits.append(own.bits * scale * math.exp2(-PER_STEP * delta + noise * rng.standard_normal()))
        situation.history.append(CodedFrame(coming, 0, round(bits[-1])))
        situation.own.append(own)
        situation.deltas.append(delta)
        rest -= own.bits
    return bits


@settings(max_examples=40, deadline=None)
@given(integers(0, 1000), floats(0.96, 1.04), floats(0, 0.1))
def test_the_budget_is_met_though_frames_cost_other_than_planned(seed: int, scale: float, noise: float) -> None:
    plan = world(seed)
    bits = spent(FrameRateModel(), plan, scale, noise, seed)
    assert sum(bits) == pytest.approx(sum(each.bits for each in plan), rel=0.025)


def test_where_the_plan_holds_libaoms_own_quantisers_are_kept() -> None:
    plan = world(3)
    bits = spent(FrameRateModel(), plan, 1.0, 0.0, 0)
    assert bits == pytest.approx([each.bits for each in plan], rel=1e-3)


@pytest.mark.parametrize("shape", [(1.2, 0.0), (0.8, 0.0), (1.0, 10.0)])
def test_another_shape_spends_the_same(shape: tuple[float, float]) -> None:
    plan = world(5)
    bits = spent(FrameRateModel(*shape), plan, 1.0, 0.0, 0)
    assert sum(bits) == pytest.approx(sum(each.bits for each in plan), rel=0.01)
    finer = bits[0] > plan[0].bits
    assert finer == (shape[0] > 1 or shape[1] > 0)
