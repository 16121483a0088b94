"""What constant quality would do at a bitrate, read off between probes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import floats

from reelrl.encode.codecs.aom.gops import KINDS
from reelrl.encode.frameqp.source.plan import plan_at
from reelrl.encode.frameqp.source.probe import FrameProbe

HEADER_BITS = 40
FRAMES = 12


def probe(qp: int) -> FrameProbe:
    """A world in which a step of the quantiser index takes 2 % of the bits, leaves lie above their key frame."""
    rows = []
    for number in range(FRAMES):
        kind = "leaf" if number else "key"
        qindex = 4 * qp - (0 if number else 40)
        bits = (20000 if number == 0 else 900) * math.exp2(-0.03 * qindex)
        rows.append((number, KINDS.index(kind), 6 if number else 0, qindex, round(bits * 100)))
    coded = np.array(rows, np.int64)
    units = coded[:, 4] + HEADER_BITS
    return FrameProbe(coded, np.ones(FRAMES, np.int64), -(-units // 8), 0.0)


@given(floats(0.3, 3.0))
def test_a_plan_spends_its_budget_less_what_headers_cost(ratio: float) -> None:
    probes = {30: probe(30), 40: probe(40)}
    bits = probes[30].bits * ratio
    plan = plan_at(bits, probes)
    headers = [each.bits - each.coded[:, 4].sum() for each in probes.values()]
    assert sum(frame.bits for frame in plan.frames) == pytest.approx(bits - np.mean(headers), abs=60)


def test_a_budget_that_a_probe_met_gives_that_probe() -> None:
    probes = {30: probe(30), 40: probe(40)}
    plan = plan_at(probes[40].bits, probes)
    assert plan.qp == 40
    assert [frame.qindex for frame in plan.frames] == probes[40].coded[:, 3].tolist()


@given(floats(0.05, 0.95))
def test_between_two_probes_quantisers_and_bits_lie_between_theirs(share: float) -> None:
    fine, coarse = probe(30), probe(40)
    bits = fine.bits ** (1 - share) * coarse.bits**share
    plan = plan_at(bits, {30: fine, 40: coarse})
    assert 30 <= plan.qp <= 40
    for low, high, frame in zip(fine.frames, coarse.frames, plan.frames, strict=True):
        assert low.qindex <= frame.qindex <= high.qindex
        assert frame.bits >= 0.9 * high.bits
    assert plan.octaves_per_step == pytest.approx(0.03, rel=0.05)


def test_one_probe_is_moved_as_a_whole() -> None:
    only = probe(40)
    plan = plan_at(only.bits / 2, {40: only})
    moves = {frame.qindex - own.qindex for frame, own in zip(plan.frames, only.frames, strict=True)}
    assert len(moves) == 1
    assert moves.pop() > 0
