"""Budgets of parts: in all the budget of the whole, and corrected by what finished parts took."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis.strategies import floats, integers, lists

from reelrl.encode.minigop.controllers.rules import RateModel
from reelrl.encode.minigop.protocols import MiniGopEpisode, PlannedMiniGop
from reelrl.encode.minigop.source.plan import ClipPlan
from reelrl.encode.parts.budgets import ROOM, PartBudgets
from reelrl.encode.parts.coding import CodedPart
from reelrl.encode.parts.probing import Probes

BUDGET = 1e6
ERROR = 16 * 64 * 64 * 20  # the same in all: no offsets


def plan(probe_bits: list[int], error: int = ERROR) -> ClipPlan:
    minigops = (
        PlannedMiniGop(mg, 0, 16 * mg, 16, 40, (40,) * 16, {}, bits, error) for mg, bits in enumerate(probe_bits)
    )
    return ClipPlan((), (), tuple(minigops), 0.0)


def budgets(plans: list[ClipPlan], *, slopes: list[float] | None = None, ratio: float = 1.0) -> PartBudgets:
    probes = Probes(tuple(plans), tuple(slopes or [0.1] * len(plans)), 1, ratio)
    minigops = tuple(planned for one in plans for planned in one.minigops)
    frames = 16 * len(minigops)
    whole = MiniGopEpisode("drawn", 64, 64, frames, Fraction(30), "vbr", 1.0, BUDGET, math.inf, 2, 1, minigops)
    return PartBudgets(RateModel(), whole, probes, "rate-model")


def coded(number: int, bits: float, expected_bits: float) -> CodedPart:
    return CodedPart(number, 16, round(bits / 8), "", [], [], expected_bits, 50, None)


def bits_of(some: PartBudgets, *numbers: int, hold: bool = True) -> list[float]:
    return [some.plan(number, hold=hold).bits for number in numbers]


@given(lists(integers(50_000, 10**6), min_size=6, max_size=6), floats(0.6, 1.2))
def test_budgets_share_the_whole_by_what_the_parts_take(probe_bits: list[int], ratio: float) -> None:
    plans = [plan(probe_bits[:1]), plan(probe_bits[1:3]), plan(probe_bits[3:])]
    shares = bits_of(budgets(plans, ratio=ratio), 0, 1, 2)
    assert sum(shares) == pytest.approx(BUDGET, rel=1e-6)
    assert shares[1] / shares[0] == pytest.approx(sum(probe_bits[1:3]) / probe_bits[0])


def test_all_parts_are_moved_by_the_same_delta_however_little_that_gains_in_some() -> None:
    some = budgets([plan([50_000] * 4), plan([50_000] * 4)], slopes=[0.2, 0.05])
    given = [some.plan(number, hold=False) for number in (0, 1)]
    assert given[0].deltas == pytest.approx(given[1].deltas)
    assert given[0].deltas[0] < 0
    assert given[0].bits > 2 * given[1].bits
    assert sum(budget.bits for budget in given) == pytest.approx(BUDGET, rel=1e-6)


def test_a_part_with_larger_errors_is_coded_coarser() -> None:
    some = budgets([plan([50_000] * 4), plan([50_000] * 4, 4 * ERROR)])
    fine, coarse = (some.plan(number, hold=False) for number in (0, 1))
    assert coarse.deltas[0] - fine.deltas[0] == pytest.approx(2 * 2)  # two QP steps per octave of error
    assert fine.bits > coarse.bits


@given(floats(0.95, 1.05), floats(0.95, 1.05))
def test_what_one_part_takes_too_much_the_others_get_less(first: float, second: float) -> None:
    some = budgets([plan([100_000])] * 3)
    one = first * bits_of(some, 0)[0]
    some.finish(coded(0, one, one))
    two = second * bits_of(some, 1)[0]
    some.finish(coded(1, two, two))
    assert bits_of(some, 2)[0] + one + two == pytest.approx(BUDGET, abs=20)


@given(floats(0.9, 1.1))
def test_what_is_under_way_is_counted_as_what_it_will_take(off: float) -> None:
    """Held to its bits it takes them; else what its probe says, as finished parts have taught to understand it."""
    for hold in (True, False):
        some = budgets([plan([100_000])] * 6)
        first = some.plan(0, hold=False)
        under_way = some.plan(1, hold=hold)
        some.finish(coded(0, off * first.bits, first.bits))
        expected = under_way.bits if hold else under_way.bits * some.ratio
        rest = bits_of(some, 2, 3, 4, 5)
        assert sum(rest) + off * first.bits + expected == pytest.approx(BUDGET, abs=20)


def test_finished_parts_teach_what_encodes_take_of_their_probes() -> None:
    some = budgets([plan([100_000])] * 10, ratio=0.9)
    assert some.ratio == pytest.approx(0.9)
    bits_of(some, *range(9))
    for number in range(3):
        some.finish(coded(number, 120_000, 100_000))
    assert 1.1 < some.ratio < 1.2
    for number in range(3, 9):
        some.finish(coded(number, 120_000, 100_000))
    assert 1.15 < some.ratio < 1.2


@given(floats(0.2, 3.0))
def test_no_part_goes_far_from_the_quality_of_the_whole_for_what_others_took(off: float) -> None:
    some = budgets([plan([100_000])] * 2)
    first = some.plan(0, hold=True)
    some.finish(coded(0, off * first.bits, off * first.bits))  # as its probe said for the QPs that it had
    assert abs(some.plan(1, hold=True).deltas[0] - first.deltas[0]) <= ROOM + 1e-3  # whole bytes
