"""The rate model against an encoder that is a formula: what it makes up for, and how far it goes for that."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from reelrl.encode.minigop.controllers.rules import RateModel
from reelrl.encode.minigop.protocols import (
    HIGHEST_QP,
    MiniGopEpisode,
    MiniGopFeedback,
    MiniGopRequest,
    PlannedMiniGop,
    Situation,
)
from reelrl.encode.minigop.source.in_process import RANDOM_ACCESS
from reelrl.encode.minigop.source.starting_qp import SampleEncode, sample_encode
from tests.encode.makers import scene

SIZE, LAG = 16, 2


def episode(probe_bits: list[int], budget_bits: float, octaves_per_qp: float) -> MiniGopEpisode:
    plan = tuple(
        PlannedMiniGop(mg, 0, mg * SIZE, SIZE, 40, (40,) * SIZE, {}, bits, 10**6) for mg, bits in enumerate(probe_bits)
    )
    return MiniGopEpisode(
        "clip", 128, 96, SIZE * len(plan), Fraction(30), "vbr", 100.0, budget_bits, 1.0, LAG, 1, plan, octaves_per_qp
    )


def coded(facts: MiniGopEpisode, scale: float, octaves_per_qp: float) -> tuple[list[float], float]:
    """Deltas, and bits over the budget, where every mini-GOP takes `scale` of what the probe lets expect."""
    controller, reports = RateModel(), list[MiniGopFeedback]()
    controller.reset(0, facts)
    assert facts.plan is not None
    deltas: list[float] = []
    for planned in facts.plan:
        request = MiniGopRequest(planned.mg, 0, planned.first_frame, SIZE, 40, (40,) * SIZE, 0.0, SIZE, {})
        deltas.append(controller.act(Situation(facts, request, reports[: max(planned.mg - LAG, 0)])))
        bits = (planned.probe_bits or 0) * scale * math.exp2(-octaves_per_qp * deltas[-1])
        reports.append(MiniGopFeedback(planned.mg, 40, round(bits), 40.0, False, SIZE, deltas[-1]))
    return deltas, sum(each.bits for each in reports) / facts.budget_bits


@given(
    bits=st.lists(st.integers(20_000, 80_000), min_size=8, max_size=20),
    budget=st.floats(0.75, 1.33),
    octaves_per_qp=st.floats(0.05, 0.3),
)
def test_a_probe_that_told_right_is_followed_at_once(bits: list[int], budget: float, octaves_per_qp: float) -> None:
    deltas, spent = coded(episode(bits, budget * sum(bits), octaves_per_qp), 1.0, octaves_per_qp)
    assert abs(spent - 1) < 0.001
    assert max(deltas) - min(deltas) < 0.05


@given(scale=st.floats(0.6, 1.6), octaves_per_qp=st.floats(0.08, 0.3))
def test_a_probe_that_is_off_by_one_factor_is_made_up_for(scale: float, octaves_per_qp: float) -> None:
    bits = [60_000, *[30_000] * 15]
    _, spent = coded(episode(bits, sum(bits), octaves_per_qp), scale, octaves_per_qp)
    assert abs(spent - 1) < 0.03


@given(scale=st.floats(0.6, 1.6))
def test_the_last_cheap_mini_gops_do_not_pay_for_a_dear_first_one(scale: float) -> None:
    deltas, _ = coded(episode([400_000, *[1_000] * 9], 409_000, 0.1), scale, 0.1)
    right = math.log2(scale) / 0.1  # had it been known before
    assert all(abs(delta - right) < 4.7 for delta in deltas[LAG + 1 :])


@given(budget=st.sampled_from([1e-12, 1e-3, 1e3, 1e30]))
def test_a_rate_that_no_qp_gives_is_answered_with_the_last_qp(budget: float) -> None:
    deltas, _ = coded(episode([30_000] * 4, budget * 120_000, 0.1), 1.0, 0.1)
    assert all(abs(delta) <= HIGHEST_QP for delta in deltas)


def test_grain_loses_more_by_a_qp_step_than_drawings_do() -> None:
    slopes = {}
    for kind in ("noise", "screen"):
        sampled = sample_encode(scene(kind, frames=34), RANDOM_ACCESS)
        assert isinstance(sampled, SampleEncode)
        slopes[kind] = sampled.octaves_per_qp
    assert slopes["noise"] > 2 * slopes["screen"]
