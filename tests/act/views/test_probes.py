"""Probes: the linear one is exact, both find what is there, and neither finds what is not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from reelrl.act.location.scores import mean_precision
from reelrl.act.views.probes import PROBES, WIDEST, Probe, ProbedViews, _linear, fit_and_answer

QUESTIONS, PLACES = 2, 3


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def views(count: int, width: int, seed: int, noise: float = 0.1) -> ProbedViews:
    """Truth is a linear function of a few directions of the embeddings, the same for every seed."""
    rng, rule = np.random.default_rng(seed), np.random.default_rng(0)
    x = rng.normal(size=(count, width))
    scores = x[:, :4] @ rule.normal(size=(4, QUESTIONS * PLACES)) + noise * rng.normal(size=(count, QUESTIONS * PLACES))
    return ProbedViews(torch.from_numpy(x).float(), (scores > 0.8).reshape(count, QUESTIONS, PLACES))


def precision(said: np.ndarray, truth: np.ndarray) -> float:
    return float(np.mean([mean_precision(said[:, q], truth[:, q]) for q in range(QUESTIONS)]))


def test_the_linear_probe_solves_its_equations() -> None:
    """Ridge regression: the gradient of the squared error and of the penalty add up to nothing."""
    torch.manual_seed(0)
    x, truth = torch.randn(60, 5), (torch.rand(60, 4) < 0.3).float()
    chosen = [np.arange(60), np.arange(0, 60, 3)]
    for numbers, probes in zip(chosen, _linear(x, truth, chosen), strict=True):
        some, wanted = x[numbers], truth[numbers]
        for probe, strength in zip(probes, (1e-3, 1e-2, 1e-1, 1.0, 10.0), strict=True):
            error = some @ probe.weights + probe.bias - wanted
            gradient = some.T @ error / len(some) + strength * probe.weights
            torch.testing.assert_close(gradient, torch.zeros_like(gradient), atol=1e-5, rtol=0)
            torch.testing.assert_close(error.mean(0), torch.zeros(4), atol=1e-5, rtol=0)


@pytest.mark.parametrize("width", [8, pytest.param(WIDEST + 20, marks=pytest.mark.long)])
def test_probes_find_what_is_there_and_more_labels_help(width: int) -> None:
    train, tuning, asked = views(1500, width, 1), views(400, width, 2), views(400, width, 3)
    few, many = fit_and_answer(train, [np.arange(30), np.arange(1500)], tuning, {"test": asked.embeddings}, seed=0)
    prior = precision(np.zeros(asked.truth.shape, np.float32), asked.truth)
    for probe in PROBES:
        with_many = precision(many[probe, "test"], asked.truth)
        assert with_many > prior + (0.4 if width == 8 else 0.2)
        assert precision(few[probe, "test"], asked.truth) < with_many


@pytest.mark.parametrize("probe", PROBES)
def test_what_is_not_in_the_embeddings_is_not_found(probe: Probe) -> None:
    train, tuning, asked = (views(600, 8, seed) for seed in (1, 2, 3))
    blind = [ProbedViews(torch.randn_like(each.embeddings), each.truth) for each in (train, tuning, asked)]
    answers = fit_and_answer(blind[0], [np.arange(600)], blind[1], {"test": blind[2].embeddings}, seed=0)
    prior = precision(np.zeros(asked.truth.shape, np.float32), asked.truth)
    assert precision(answers[0][probe, "test"], asked.truth) < prior + 0.06


def test_scale_and_dead_units_change_nothing_for_the_linear_probe() -> None:
    train, tuning, asked = views(300, 6, 1), views(100, 6, 2), views(100, 6, 3)

    def scaled(each: torch.Tensor) -> torch.Tensor:
        return torch.cat([each * 1000 + 7, torch.full((len(each), 2), 3.0)], 1)

    one = fit_and_answer(train, [np.arange(300)], tuning, {"test": asked.embeddings}, seed=0)
    other = fit_and_answer(
        ProbedViews(scaled(train.embeddings), train.truth),
        [np.arange(300)],
        ProbedViews(scaled(tuning.embeddings), tuning.truth),
        {"test": scaled(asked.embeddings)},
        seed=0,
    )
    np.testing.assert_allclose(one[0]["linear", "test"], other[0]["linear", "test"], atol=2e-3)
