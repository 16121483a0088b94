"""A bitrate held in low delay: laws of single decisions, then real encodes through a cut."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reelrl.content.clip import Clip, concatenate
from reelrl.encode.minigop.controllers.bits import BitsModel, Pictures
from reelrl.encode.minigop.controllers.leaky_bucket import LeakyBucket
from reelrl.encode.minigop.evaluate import buffer_use
from reelrl.encode.minigop.protocols import Goal, MiniGopEpisode, MiniGopFeedback, MiniGopRequest, Situation
from reelrl.encode.minigop.run import MiniGopRun, run_controller
from reelrl.encode.minigop.source.in_process import LOW_DELAY
from reelrl.encode.minigop.source.preparation import Preparation
from reelrl.encode.minigop.source.starting_qp import starting_qp
from tests.encode.makers import scene

SIZE, FRAMES = 8, 96
GOALS: tuple[Goal, ...] = ("cbr", "vbr")


def episode(goal: Goal) -> MiniGopEpisode:
    return MiniGopEpisode("clip", 128, 96, FRAMES, Fraction(30), goal, 100.0, 100_000 * FRAMES / 30, 1.0, 0, 0)


def decisions(goal: Goal, bits: list[int], features: list[dict[str, float]]) -> list[int]:
    """QPs that are asked for while mini-GOPs cost what `bits` says."""
    controller, history, qps = LeakyBucket(), list[MiniGopFeedback](), []
    controller.reset(0, episode(goal))
    for mg, (cost, found) in enumerate(zip(bits, features, strict=True)):
        left = FRAMES - mg * SIZE
        request = MiniGopRequest(mg, 0, mg * SIZE, SIZE, 40, (40,) * SIZE, 0.0, left, found)
        delta = controller.act(Situation(episode(goal), request, history))
        qps.append(round(40 + delta))
        history.append(MiniGopFeedback(mg, qps[-1], cost, 40.0, mg * SIZE + SIZE == FRAMES, SIZE, delta))
    return qps


PICTURES = st.fixed_dictionaries(
    {
        "intra": st.floats(0, 60),
        "inter": st.floats(0, 120),
        "cut_frames": st.integers(0, SIZE).map(float),
        "cut_intra": st.floats(0, 60),
        "cut_inter": st.floats(0, 120),
    }
)


@given(
    goal=st.sampled_from(GOALS),
    bits=st.lists(st.integers(0, 10**7), min_size=12, max_size=12),
    features=st.lists(PICTURES | st.just({}), min_size=12, max_size=12),
)
def test_every_decision_is_a_qp_that_exists(goal: Goal, bits: list[int], features: list[dict[str, float]]) -> None:
    assert all(1 <= qp <= 63 for qp in decisions(goal, bits, features))


@pytest.mark.parametrize("goal", GOALS)
def test_what_was_spent_too_much_makes_the_rest_coarser(goal: Goal) -> None:
    still = [{"intra": 5.0, "inter": 2.0, "cut_frames": 0.0}] * 12
    share = 100_000 * SIZE // 30
    assert decisions(goal, [2 * share] * 12, still)[-1] > decisions(goal, [share] * 12, still)[-1] + 3


def test_a_cut_into_something_harder_is_met_by_the_mini_gop_that_holds_it() -> None:
    quiet = {"intra": 5.0, "inter": 1.0, "cut_frames": 0.0}
    cut = {"intra": 8.0, "inter": 12.0, "cut_frames": 4.0, "cut_intra": 9.0, "cut_inter": 4.0}
    share = 100_000 * SIZE // 30
    qps = decisions("cbr", [share] * 7, [*[quiet] * 6, cut])
    assert qps[6] > qps[5] + 8


def test_bits_that_still_pictures_do_not_take_are_offered_ever_finer() -> None:
    still = [{"intra": 5.0, "inter": 0.0, "cut_frames": 0.0}] * 12
    qps = decisions("cbr", [100_000 * SIZE // 30, *[200] * 11], still)
    assert qps == sorted(qps, reverse=True)
    assert qps[-1] < 10


@given(
    frames=st.integers(1, 16),
    energy=st.floats(0, 60),
    intra=st.floats(0, 60),
    afresh=st.booleans(),
    qps=st.lists(st.integers(1, 63), min_size=3, max_size=3),
    bits=st.integers(0, 10**8),
)
def test_a_model_expects_fewer_bits_at_a_coarser_qp_whatever_it_learned(
    frames: int, energy: float, intra: float, afresh: bool, qps: list[int], bits: int
) -> None:
    model, (fine, seen, coarse) = BitsModel(128 * 96), sorted(qps)
    pictures = Pictures(frames, energy, intra, afresh=afresh, refined_from=40)
    model.learn(pictures, seen, bits, first=False)
    assert model.bits(pictures, fine) >= model.bits(pictures, coarse) >= 0


def test_what_was_learned_brings_the_expectation_nearer_and_a_cut_takes_most_of_it_back() -> None:
    model, pictures = BitsModel(128 * 96), Pictures(8, 4.0, 5.0, afresh=False, refined_from=40)
    usual = model.bits(pictures, 40)
    model.learn(pictures, 40, int(4 * usual), first=False)
    learned = model.bits(pictures, 40)
    assert 1.5 * usual < learned < 4 * usual
    model.new_scene()
    assert usual < model.bits(pictures, 40) < 0.7 * learned


@cache
def through_a_cut(goal: Goal) -> tuple[Clip, MiniGopRun]:
    """Two scenes, at what crf 40 takes for both."""
    clip = concatenate([scene("street", frames=100), scene("pan", frames=100)], "street+pan").load()
    prepared = Preparation(clip, LOW_DELAY)
    return clip, run_controller(prepared.source(kbps=round(prepared.kbps_at(40)), goal=goal), LeakyBucket())


@pytest.mark.slow
def test_the_bits_of_a_clip_are_met_without_looking_ahead() -> None:
    assert abs(through_a_cut("vbr")[1].rate_error) < 0.05


@pytest.mark.slow
def test_the_bucket_takes_a_cut() -> None:
    clip, run = through_a_cut("cbr")
    late, _ = buffer_use([packet.size for packet in run.packets], clip.fps, run.episode.kbps, run.episode.buffer_s)
    assert run.rate_error < 0.05
    assert late < 0.05 * clip.frame_count


def test_more_bits_never_start_coarser() -> None:
    qps = [starting_qp(scene(frames=30), LOW_DELAY, kbps) for kbps in (10, 40, 160, 640, 2560)]
    assert qps == sorted(qps, reverse=True)
    assert qps[0] > qps[-1]
