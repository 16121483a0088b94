"""Scores from counts equal scores from answers, and intervals are over matches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import integers

from reelrl.act.location.scores import (
    METRICS,
    Counts,
    best_thresholds,
    drawings,
    f1,
    interval,
    mean_precision,
    over_seeds,
)


def answers_of(seed: int, moments: int = 300, places: int = 3, matches: int = 4) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    truth = rng.random((moments, places)) < [0.5, 0.2, 0.1]
    answers = np.clip(0.35 * truth + 0.6 * rng.random((moments, places)), 0, 1).astype(np.float32)
    return answers, truth, rng.permutation(np.arange(moments) % matches)


def plain_f1(said: np.ndarray, truth: np.ndarray) -> float:
    hits = (said & truth).sum()
    return float(2 * hits / (said.sum() + truth.sum()))


@settings(max_examples=20, deadline=None)
@given(seed=integers(0, 10_000))
def test_counts_give_what_the_answers_give(seed: int) -> None:
    answers, truth, match = answers_of(seed)
    thresholds = best_thresholds(answers, truth)
    found = Counts.of(answers, truth, match, thresholds).scores(np.ones((1, 4)))
    assert found["macro_ap"][0] == pytest.approx(mean_precision(answers, truth), abs=0.01)
    said = answers >= thresholds
    assert found["macro_f1"][0] == pytest.approx(
        np.mean([plain_f1(s, t) for s, t in zip(said.T, truth.T, strict=True)])
    )
    assert found["micro_f1"][0] == pytest.approx(plain_f1(said, truth))
    assert found["micro_f1_at_half"][0] == pytest.approx(plain_f1(answers >= 0.5, truth))


@settings(max_examples=20, deadline=None)
@given(seed=integers(0, 10_000))
def test_a_match_that_is_drawn_twice_counts_twice(seed: int) -> None:
    answers, truth, match = answers_of(seed)
    thresholds = np.full(3, 0.5)
    weighted = Counts.of(answers, truth, match, thresholds).scores(np.array([[2.0, 0.0, 1.0, 1.0]]))
    chosen = np.concatenate([np.flatnonzero(match == each) for each in (0, 0, 2, 3)])
    twice = Counts.of(answers[chosen], truth[chosen], match[chosen], thresholds).scores(np.ones((1, 4)))
    for metric in METRICS:
        assert weighted[metric][0] == pytest.approx(twice[metric][0], abs=0.01)


def test_no_threshold_has_a_better_f1_than_the_best() -> None:
    answers, truth, _ = answers_of(1)
    best = best_thresholds(answers, truth)
    for place in range(3):
        others = [plain_f1(answers[:, place] >= each, truth[:, place]) for each in answers[:, place]]
        assert plain_f1(answers[:, place] >= best[place], truth[:, place]) == pytest.approx(max(others))


def test_a_constant_answer_has_the_precision_of_chance() -> None:
    _, truth, match = answers_of(2)
    constant = np.tile(np.array([0.5, 0.2, 0.1], np.float32), (len(truth), 1))
    found = Counts.of(constant, truth, match, np.full(3, 0.5)).scores(np.ones((1, 4)))
    assert found["macro_ap"][0] == pytest.approx(truth.mean())


def test_probabilities_that_come_true_are_calibrated_and_certainty_is_not() -> None:
    rng = np.random.default_rng(0)
    answers = rng.random((20_000, 3)).astype(np.float32)
    truth = rng.random(answers.shape) < answers
    match = np.arange(len(answers)) % 4
    honest = Counts.of(answers, truth, match, np.full(3, 0.5))
    sure = Counts.of((answers > 0.5).astype(np.float32), truth, match, np.full(3, 0.5))
    assert honest.scores(np.ones((1, 4)))["calibration_error"][0] < 0.02
    assert sure.scores(np.ones((1, 4)))["calibration_error"][0] == pytest.approx(0.25, abs=0.02)
    assert all(abs(said - true) < 0.03 for said, true, _ in honest.reliability())


def test_a_place_that_is_always_empty_does_not_count() -> None:
    answers, truth, match = answers_of(3)
    truth[:, 2] = False
    found = Counts.of(answers, truth, match, np.full(3, 0.5)).scores(np.ones((1, 4)))
    assert found["macro_ap"][0] == pytest.approx(mean_precision(answers[:, :2], truth[:, :2]), abs=0.01)


def test_equal_runs_have_no_spread_and_equal_matches_no_interval() -> None:
    values = np.full(11, 0.4)
    assert over_seeds([values, values, values]).tolist() == pytest.approx(values.tolist())
    assert interval(values) == (0.4, 0.4, 0.4)


def test_the_first_drawing_is_the_measurement_itself() -> None:
    weights = drawings(5, resamples=50)
    assert (weights[0] == 1).all()
    assert (weights.sum(1) == 5).all()
    runs = [np.arange(51.0), np.arange(51.0) + 2]
    assert over_seeds(runs)[0] == 1.0


def test_f1_of_silence_where_there_is_nothing_is_zero() -> None:
    assert f1(np.zeros(3)) == 0
