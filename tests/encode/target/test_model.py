"""Laws of what is believed of a scene."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import floats, sampled_from

from reelrl.encode.target.fit import fitted
from reelrl.encode.target.lessons import KNOTS, PROBE, Lesson
from reelrl.encode.target.model import (
    CRFS,
    SIZE,
    FigureModel,
    FileBelief,
    evened,
    from_scale,
    knot_weights,
    to_scale,
)
from tests.encode.target.makers import lesson, lessons, vmaf_of

pytestmark = pytest.mark.slow

LEARNED = lessons(20)


@pytest.fixture(scope="module")
def model() -> FigureModel:
    return fitted("vmaf.mean", LEARNED)


@given(value=floats(1, 99.9), figure=sampled_from(["vmaf.mean", "psnr.p5", "bits"]))
def test_the_scale_of_a_figure_can_be_undone_and_keeps_order(value: float, figure: str) -> None:
    assert abs(float(from_scale(figure, to_scale(figure, value))) - value) < 1e-6
    assert to_scale(figure, value) > to_scale(figure, value - 0.5)


def test_the_last_step_of_crf_moves_a_figure_four_times_as_far_as_one_in_the_middle() -> None:
    curve = np.zeros(SIZE)
    curve[: len(KNOTS)] = [-evened(knot) for knot in KNOTS]
    middle, last = (knot_weights(PROBE, crf) @ curve - knot_weights(PROBE, crf + 1) @ curve for crf in (40, 62))
    assert middle == pytest.approx(1)
    assert last == pytest.approx(3.8, abs=0.1)


def test_what_is_measured_makes_surer_and_never_less_sure(model: FigureModel) -> None:
    scene = FileBelief(model).scene(np.array(LEARNED[0].features))
    doubts = [scene.curve(8)[1]]
    for crf in (40.0, 30.0, 52.0):
        scene.observe(PROBE, crf, vmaf_of(crf, 0.4))
        doubts.append(scene.curve(8)[1] / np.abs(np.gradient(scene.curve(8)[0])))
    assert doubts[1].mean() > doubts[2].mean() > doubts[3].mean()


def test_a_probe_tells_what_the_whole_scene_is_by_another_preset(model: FigureModel) -> None:
    hardness = 0.7  # features say 0
    scene = FileBelief(model).scene(np.zeros(len(model.centre)) + model.centre)
    at = int(np.searchsorted(CRFS, 40.0))
    before = abs(scene.curve(8)[0][at] - vmaf_of(40, hardness))
    stated = scene.after_probe(40.0, 8, at)
    scene.observe(PROBE, 40.0, vmaf_of(40, hardness + 0.1))
    expected, doubt = scene.curve(8)
    assert abs(expected[at] - vmaf_of(40, hardness)) < 0.3 < 1.5 < before
    assert abs(scene.curve(4)[0][at] - vmaf_of(40, hardness - 0.1)) < 0.4
    # What was stated before the probe holds in scale; the curve's slope has moved a little since.
    assert 0.4 < doubt[at] / stated < 2.5


def test_earlier_scenes_of_a_file_teach_what_they_have_in_common(model: FigureModel) -> None:
    at, features = int(np.searchsorted(CRFS, 42.0)), model.centre.copy()
    file = FileBelief(model)
    alone = file.scene(features)
    for _ in range(3):
        scene = file.scene(features)
        scene.observe(PROBE, 42.0, vmaf_of(42, 0.6))
        file.learn(scene)
    later = file.scene(features)
    assert abs(later.curve(8)[0][at] - vmaf_of(42, 0.5)) < abs(alone.curve(8)[0][at] - vmaf_of(42, 0.5)) / 2
    assert later.curve(8)[1][at] < alone.curve(8)[1][at]
    file.learn(file.scene(features))  # nothing was measured: nothing is learned
    assert np.allclose(file.scene(features).curve(8)[0], later.curve(8)[0])


def test_scenes_of_a_source_are_found_to_be_alike_where_they_are(model: FigureModel) -> None:
    rng = np.random.default_rng(2)
    unlike = [lesson(str(n), str(n // 3), rng.normal(size=len(model.centre)), 0.5 * rng.normal()) for n in range(60)]
    assert model.shared > 0.4
    assert fitted("vmaf.mean", unlike).shared < 0.2


def test_lessons_with_other_encodes_fit_together() -> None:
    """A preset that most scenes were never coded with is still known from those that were, and from its neighbour."""
    rng = np.random.default_rng(2)
    mixed: list[Lesson] = []
    for number in range(40):
        features = rng.normal(size=len(LEARNED[0].features))
        presets: dict[str, tuple[int, ...]] = {"8": (20, 33, 47)} if number % 2 else {"8": (28, 39), "4": (25, 45)}
        mixed.append(lesson(str(number), str(number), features, 0.5 * features[3], presets=presets))
    model = fitted("vmaf.mean", mixed)
    features = np.zeros(len(model.centre))
    expected = FileBelief(model).scene(features).curve(4)[0]
    for crf in (24.0, 36.0, 48.0):
        assert abs(expected[int(np.searchsorted(CRFS, crf))] - vmaf_of(crf, -0.1)) < 1.5
