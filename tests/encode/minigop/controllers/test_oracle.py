"""The direct search: never below where it began, on budget, and told as what it is."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from reelrl.encode.minigop.controllers.learned import load_minigop_controller
from reelrl.encode.minigop.controllers.oracle import DirectSearch
from reelrl.encode.minigop.controllers.rules import FixedDeltas, RateModel
from reelrl.encode.minigop.evaluate import MiniGopContestant
from reelrl.encode.minigop.reference import RdCurve
from reelrl.encode.minigop.run import MiniGopRun, run_controller
from reelrl.encode.minigop.source.in_process import RANDOM_ACCESS
from reelrl.encode.minigop.source.preparation import Preparation
from reelrl.errors import ConfigError
from tests.encode.makers import scene

pytestmark = pytest.mark.slow

QUICK = replace(RANDOM_ACCESS, hierarchical_levels=3, preset=10)
KBPS = 60.0


@cache
def prepared() -> Preparation:
    return Preparation(scene("cuts", frames=33), QUICK)


@cache
def searched() -> tuple[DirectSearch, MiniGopRun]:
    oracle = DirectSearch(2)
    oracle.study(prepared())
    return oracle, run_controller(prepared().source(kbps=KBPS), oracle)


def gain_db(run: MiniGopRun) -> float:
    """Above the encoder's own curve at the bits spent: what the search maximises."""
    source = prepared().source(kbps=KBPS)
    source.close()
    curve = RdCurve(source.clip, replace(source.settings, qp=source.start_qp, picture_qp=False))
    return run.psnr_y - curve.psnr_at(run.bits)


@pytest.mark.long
def test_the_search_is_never_worse_than_what_it_begins_with() -> None:
    _, found = searched()
    alike = run_controller(prepared().source(kbps=KBPS), RateModel(0))
    by_error = run_controller(prepared().source(kbps=KBPS), RateModel())
    assert gain_db(found) >= gain_db(by_error)
    # The rate model corrects itself on the way, so its deltas are not quite alike; the search began with equal ones.
    assert gain_db(found) > gain_db(alike) - 0.02


def test_the_search_meets_the_budget() -> None:
    _, found = searched()
    assert abs(found.rate_error) < 0.03


@pytest.mark.long
def test_what_the_search_decided_codes_to_the_same_stream_again() -> None:
    oracle, found = searched()
    again = DirectSearch(2)
    again.study(prepared())
    assert run_controller(prepared().source(kbps=KBPS), again).deltas == oracle.deltas == found.deltas
    assert again.encodes == oracle.encodes > 10


def test_the_search_is_an_oracle_and_nobody_else_is() -> None:
    assert MiniGopContestant.parse("direct-search").privileged
    assert MiniGopContestant.parse("best=direct-search(4,2,1)").privileged
    assert not any(
        MiniGopContestant.parse(name).privileged for name in ("rate-model", "crf-replay", "auto-boost", "vbr2")
    )


def test_steps_are_given_in_brackets() -> None:
    oracle = load_minigop_controller("direct-search(4,0.5)")
    assert isinstance(oracle, DirectSearch)
    assert oracle.steps == (4, 0.5)


def test_a_search_without_the_clip_says_what_is_missing() -> None:
    with pytest.raises(ConfigError, match="study"):
        run_controller(prepared().source(kbps=KBPS), DirectSearch())


@pytest.mark.long
def test_the_search_codes_in_sessions_like_the_one_it_decides_for() -> None:
    oracle = DirectSearch(2)
    oracle.study(prepared(), headroom=0)
    found = run_controller(prepared().source(kbps=KBPS, headroom=0), oracle)
    assert found.bits == oracle._run(oracle.deltas).bits
    assert found.bits != run_controller(prepared().source(kbps=KBPS), FixedDeltas(oracle.deltas)).bits
