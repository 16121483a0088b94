"""An encode that is steered to its target while it is made."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reelrl.content.quality import psnr
from reelrl.content.sources import open_clip
from reelrl.encode.codecs.decoding import decode
from reelrl.encode.codecs.session import EncoderSession
from reelrl.encode.minigop.source.plan import layers_of, spans_of
from reelrl.encode.parts.cuts import VideoPart
from reelrl.encode.target.goal import QualityTarget
from reelrl.encode.target.lessons import BITS, SETTINGS
from reelrl.encode.target.levels import Levels, Stretch, mean_crf, mean_figure, of_all, per_db
from reelrl.encode.target.meet import MeetTask, meet_part
from reelrl.encode.target.model import CRFS, FileBelief, from_scale, to_scale
from reelrl.encode.target.model_file import load_models
from reelrl.encode.target.search import SceneSearch, SearchRules
from reelrl.encode.target.steering import (
    FIRST_CHECK,
    checks_in,
    frames_before_check,
    frames_to_score,
    steerable,
    steered_to_target,
)
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

SCENE = open_clip("generated:pan?size=128x96&frames=120&seed=3")
PSNR = QualityTarget("psnr", 36.0)


def coded(crf: int, moves: dict[int, int]) -> list[tuple[int, bytes]]:
    """(QP, bytes) of each picture; `moves` are CRFs by frame."""
    settings = replace(SETTINGS, qp=crf, preset=12).for_clip(SCENE)
    packets = []
    with EncoderSession(settings) as session:
        for number, frame in enumerate(SCENE):
            session.send(frame, base_qp=moves.get(number))
            packets += session.receive()
        packets += session.flush()
    return [(packet.qp, packet.data) for packet in packets]


@pytest.mark.slow
def test_a_mini_gop_and_all_after_it_take_the_crf_that_is_sent_with_its_last_picture() -> None:
    low, high, moved = coded(30, {}), coded(44, {}), coded(30, {64: 44})
    # The mini-GOP before looks ahead to it, so only its leaves are the same: they have the CRF itself.
    assert [data for _, data in moved[:33]] == [data for _, data in low[:33]]
    assert [qp for qp, _ in moved[33:48:2]] == [30] * 8
    assert [qp for qp, _ in moved[49:64:2]] == [qp for qp, _ in high[49:64:2]] == [44] * 8
    assert abs(np.mean([qp for qp, _ in moved[65:]]) - np.mean([qp for qp, _ in high[65:]])) < 1
    assert coded(30, {64: 44}) == moved


@pytest.mark.parametrize("number", [1, 15, 17])
def test_a_crf_within_a_mini_gop_is_refused(number: int) -> None:
    settings = replace(SETTINGS, preset=12).for_clip(SCENE)
    frames = iter(SCENE)
    with EncoderSession(settings) as session:
        for _ in range(number):
            session.send(next(frames))
        with pytest.raises(ConfigError, match="last picture of a mini-GOP"):
            session.send(next(frames), base_qp=40)


@pytest.mark.parametrize("frames", [66, 100, 129, 200, 487, 600])
def test_frames_to_score_have_neighbours_and_fall_on_layers_as_frames_do(frames: int) -> None:
    spans = spans_of(frames, SETTINGS)
    chosen = frames_to_score(spans, frames)
    assert min(chosen) > 0
    assert max(chosen) < frames - 1
    assert len(chosen) <= 32
    layers = [layer for span in spans for layer in layers_of(span, spans, SETTINGS.levels)]
    leaves = np.mean([layers[number] == 4 for number in chosen])
    assert leaves == pytest.approx(0.5, abs=0.1)


def test_scenes_of_five_mini_gops_are_steered_from_the_fourth_on() -> None:
    assert not steerable(65, SETTINGS)
    assert steerable(66, SETTINGS)
    assert min(checks_in(spans_of(66, SETTINGS), 8)) == FIRST_CHECK
    assert frames_before_check(SETTINGS) == 64


def test_slow_presets_are_scored_at_each_mini_gop_and_fast_ones_at_every_second() -> None:
    spans = spans_of(129, SETTINGS)
    assert checks_in(spans, 4) == set(range(FIRST_CHECK, len(spans)))
    assert checks_in(spans, 8) == set(range(FIRST_CHECK, len(spans), 2))


CURVE = np.minimum(99.0, 100 - 1.5 * np.exp((CRFS - 30) / 11))


def at(crf: float) -> float:
    return float(np.interp(crf, CRFS, CURVE))


def test_the_rest_makes_up_for_what_is_known() -> None:
    known = [Stretch(60, 50.0, at(50) - 2)]
    crf, mean = Levels("vmaf.mean", CURVE, 20.0, known, 120).rest_at(at(50), [], 8, 63)
    assert mean == pytest.approx(at(50), abs=0.2)
    assert crf < 47


def test_the_surer_the_model_is_the_less_a_stretch_says() -> None:
    known = [Stretch(33, 40.0, at(40) - 3)]
    crfs = [Levels("vmaf.mean", CURVE, doubt, known, 200).whole_at(at(40)) for doubt in (0.2, 1.0, 4.0)]
    assert crfs == sorted(crfs, reverse=True)
    assert crfs[0] - crfs[-1] > 2


def test_a_whole_encode_that_missed_says_where_to_begin_again() -> None:
    known = [Stretch(60, 40.0, at(40) - 3), Stretch(60, 44.0, at(44) - 3)]
    crf = Levels("vmaf.mean", CURVE, 5.0, known, 120).whole_at(at(42) - 3)
    assert crf == pytest.approx(42, abs=0.5)


@given(value=st.floats(60, 98), slope=st.floats(0.1, 2.5))
def test_frames_that_are_coded_better_than_those_scored_count_for_more(value: float, slope: float) -> None:
    assert of_all("vmaf.mean", value, 0, slope) == pytest.approx(value)
    worse, better = (of_all("vmaf.mean", value, off, slope) for off in (-0.4, 0.4))
    assert worse < value < better < 100
    # Near 100 a decibel is worth little.
    assert better - value < value - worse


@given(psnrs=st.lists(st.floats(25, 50), min_size=2, max_size=20), off=st.floats(-3, 3))
def test_the_psnr_of_a_stretch_is_that_of_all_its_frames_whichever_are_scored(psnrs: list[float], off: float) -> None:
    mean, slope = float(np.mean(psnrs)), per_db("psnr.mean", psnrs, psnrs)
    assert of_all("psnr.mean", mean + off, -off, slope) == pytest.approx(mean)


@given(slope=st.floats(0, 2.5), psnrs=st.lists(st.floats(30, 40), min_size=8, max_size=8, unique=True))
def test_scores_say_what_a_decibel_is_worth(slope: float, psnrs: list[float]) -> None:
    values = from_scale("vmaf.mean", 10 + slope * (np.array(psnrs) - 30)).tolist()
    known = per_db("vmaf.mean", values, psnrs)
    assert min(slope, 1) - 1e-6 <= known <= max(slope, 1) + 1e-6
    assert per_db("vmaf.mean", values[:1], psnrs[:1]) == 1
    assert per_db("ssim.mean", [0.9, 0.99], [30, 40]) == 0


def test_pictures_that_stand_still_do_not_carry_the_score_away() -> None:
    assert per_db("vmaf.mean", [90.0, 90.0, 90.0], [40.0, 60.0, 100.0]) < 0.01


def test_an_encode_knows_from_the_one_before_which_parts_are_hard() -> None:
    # A quiet beginning, then something happens: at one CRF 2 above the curve, and 2 below.
    def coded_at(crf: float) -> list[Stretch]:
        scaled = to_scale("vmaf.mean", at(crf))
        return [Stretch(60, crf, float(from_scale("vmaf.mean", scaled + level))) for level in (2, -2)]

    before, now = coded_at(46), coded_at(40)
    blind = Levels("vmaf.mean", CURVE, 5.0, now[:1], 120).rest_at(at(40), [], 8, 63)[0]
    taught = Levels("vmaf.mean", CURVE, 5.0, now[:1], 120, before).rest_at(at(40), [], 8, 63)[0]
    assert blind > 44
    assert taught == pytest.approx(40, abs=1)


def test_an_encode_that_was_given_up_says_nothing_of_what_it_did_not_reach() -> None:
    now, frames = [Stretch(33, 40.0, at(40))], 200
    blind = Levels("vmaf.mean", CURVE, 2.0, now, frames).rest_at(at(40), [], 8, 63)
    same = Levels("vmaf.mean", CURVE, 2.0, now, frames, now).rest_at(at(40), [], 8, 63)
    assert same == blind


def test_where_the_curve_is_flat_and_all_is_too_good_the_next_encode_begins_at_the_highest_crf() -> None:
    flat = np.where(CRFS < 48, CURVE, at(48))
    known = [Stretch(60, 63.0, at(48) + 2), Stretch(60, 59.0, at(48) + 2)]
    assert Levels("vmaf.mean", flat, 5.0, known, 120).whole_at(at(48)) == CRFS[-1]


def searching(target: QualityTarget) -> SceneSearch:
    models, _ = load_models()
    beliefs = {name: FileBelief(models[name]).scene(models[name].centre) for name in (target.figure, BITS)}
    return SceneSearch(beliefs, target, 12, SearchRules(), restart_cost=0.5)


def test_after_two_encodes_on_either_side_of_the_target_the_third_begins_between_them() -> None:
    search = searching(QualityTarget("vmaf", 92.0))
    for crf, figure in ((52.0, 96.6), (63.0, 88.0)):
        begin = search.start_again([Stretch(120, crf, figure)], 120)
    assert 54 < begin < 62


def test_an_encode_that_missed_by_little_is_made_again_nearby() -> None:
    search = searching(QualityTarget("vmaf", 96.0))
    assert search.start_again([Stretch(120, 63.0, 94.5)], 120) > 60
    assert search.start_again([Stretch(33, 63.0, 60.0)], 120) < 60


def test_an_uneven_encode_is_as_good_as_one_at_a_higher_crf_than_its_mean() -> None:
    search = searching(QualityTarget("vmaf", 85.0))
    expected = np.minimum.accumulate(search.beliefs["vmaf.mean"].curve(12)[0])
    ends = [Stretch(60, crf, 0.0) for crf in (40.0, 62.0)]
    crf = search._crf_like(ends)
    assert np.interp(crf, CRFS, expected) == pytest.approx(np.interp([40, 62], CRFS, expected).mean(), abs=0.5)
    assert crf > mean_crf(ends)


def test_a_scene_that_the_cap_of_its_bitrate_holds_below_the_target_says_so() -> None:
    free = replace(searching(QualityTarget("vmaf", 93.0)), rules=SearchRules(probes=0))
    decision = free.decide(lambda _: pytest.fail("not probed"))
    crf = decision.chosen.crf
    rate = float(2 ** free.beliefs[BITS].curve(12)[0][int(np.searchsorted(CRFS, crf))]) / 1000
    missed, met = ([Stretch(60, crf, figure), Stretch(60, crf, figure)] for figure in (90.0, 92.9))
    capped = replace(free, max_kbps=rate)
    assert capped.after_encodes(decision, [missed]).capped_by == "kbps"
    assert capped.after_encodes(decision, [met]).capped_by == ""
    assert replace(free, max_kbps=100 * rate).after_encodes(decision, [missed]).capped_by == ""


@pytest.mark.slow
def test_a_scene_is_coded_to_its_target_and_again_to_the_same_bytes() -> None:
    settings, scene = replace(SETTINGS, preset=12), SCENE.load()
    encode, encodes, _ = steered_to_target(scene, settings, searching(PSNR), 50)
    assert sum(stretch.frames for stretch in encode.stretches) == scene.frame_count
    assert encodes[-1] == encode.stretches
    pictures = decode(packet.data for packet in encode.packets)
    got = np.mean([psnr(a, b).y for a, b in zip(scene, pictures, strict=True)])
    assert got == pytest.approx(PSNR.value, abs=2 * PSNR.near)
    assert mean_figure(encode.stretches) == pytest.approx(got, abs=PSNR.near)
    again, _, _ = steered_to_target(scene, settings, searching(PSNR), 50)
    assert [packet.data for packet in again.packets] == [packet.data for packet in encode.packets]


@pytest.mark.slow
def test_a_steered_part_is_found_again_with_all_that_was_decided(tmp_path: Path) -> None:
    models, _ = load_models()
    settings = replace(SETTINGS, preset=12).for_clip(SCENE)
    files = {name: FileBelief(models[name]) for name in (PSNR.figure, BITS)}
    part = VideoPart(0, 0, SCENE.frame_count)
    task = MeetTask(SCENE, part, "pictures", tmp_path, settings, PSNR, files, SearchRules(probes=0), None)
    first, second = meet_part(task), meet_part(task)
    assert (first.found, second.found) == (False, True)
    assert second.coded == first.coded
    assert second.decision == first.decision
    for name in files:
        np.testing.assert_allclose(second.beliefs[name].curve(8)[0], first.beliefs[name].curve(8)[0])
