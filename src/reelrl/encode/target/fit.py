"""The model of a figure, from lessons: means and covariance by expectation maximisation, so that any encodes will do.

Lessons differ in what was encoded of them. What is missing is filled in by what the model believes of it (E step); the
model is then fitted to what is filled in, with the doubt that is left counted (M step).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from reelrl.encode.target.lessons import KNOTS, PROBE, Lesson
from reelrl.encode.target.model import CRFS, ENCODERS, SIZE, FigureModel, FileBelief, knot_weights, to_scale

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

_ROUNDS = 40
_LEAST_SPREAD = 1e-3
_LARGEST_SHARED = 0.9
_FOLDS, _LEAST_ERRORS, _LARGEST_ERROR = 5, 4, 3.0


@dataclass(frozen=True)
class CurveFitSettings:
    """How strongly a fit is held back.

    ridge             pull of the features' weights to zero, in scenes
    difference_ridge  the same for what encoders differ by
    trust             scenes that the smooth covariance from which a fit begins counts as
    residual          standard deviation that features leave, as a share of that of all points, before anything is known
    difference        the same of what encoders differ by
    noise             standard deviation of a point around its scene's curve, as the same share
    """

    ridge: float = 30.0
    difference_ridge: float = 100.0
    trust: float = 15.0
    residual: float = 0.4
    difference: float = 0.05
    noise: float = 0.01


def fitted(figure: str, lessons: Sequence[Lesson], settings: CurveFitSettings | None = None) -> FigureModel:
    """The model of a figure, as unsure as it should be. Lessons without a point of it count for nothing.

    A fit knows its own scenes too well. So it is tried on sources that are left out of it, and the covariance is made
    as wide as it is wrong there.
    """
    settings = settings or CurveFitSettings()
    model = _fitted_once(figure, lessons, settings)
    wrong = [error for fold in _folds(lessons) for error in _errors(figure, *fold, settings)]
    if len(wrong) < _LEAST_ERRORS:
        return model
    # Not by single scenes of another kind: a probe that is far off says nothing about the others.
    caution = float(np.clip(np.sqrt(np.mean(np.minimum(np.square(wrong), _LARGEST_ERROR**2))), 1, _LARGEST_ERROR))
    return replace(model, covariance=caution**2 * model.covariance)


def _folds(lessons: Sequence[Lesson]) -> Iterator[tuple[list[Lesson], list[Lesson]]]:
    """(those to fit to, those of other sources)."""
    sources = sorted({lesson.source for lesson in lessons})
    for fold in range(min(_FOLDS, len(sources)) if len(sources) > 2 else 0):
        left_out = set(sources[fold::_FOLDS])
        yield [x for x in lessons if x.source not in left_out], [x for x in lessons if x.source in left_out]


def _errors(
    figure: str, known: Sequence[Lesson], others: Sequence[Lesson], settings: CurveFitSettings
) -> Iterator[float]:
    """What is expected of whole scenes after a probe at their CRF, in standard deviations off what they are."""
    model = _fitted_once(figure, known, settings)
    for lesson in others:
        probes = dict(zip(*(each.tolist() for each in lesson.curve(PROBE, figure)), strict=True))
        for crf, value in zip(*(each.tolist() for each in lesson.curve("8", figure)), strict=True):
            if crf in probes:
                belief = FileBelief(model).scene(np.array(lesson.features))
                belief.observe(PROBE, crf, probes[crf])
                expected, doubt = belief.curve(8)
                place = int(np.searchsorted(CRFS, crf))
                yield (value - float(expected[place])) / max(float(doubt[place]), 1e-9)


def _fitted_once(figure: str, lessons: Sequence[Lesson], settings: CurveFitSettings) -> FigureModel:
    rows, values, inputs, centre, spread, sources = _gather(figure, lessons)
    everything = np.concatenate(values)
    scale = float(everything.std()) or 1.0
    prior = scale**2 * _smooth_covariance(settings)
    noise = (settings.noise * scale) ** 2
    weights = np.zeros((SIZE, inputs.shape[1]))
    weights[: len(KNOTS), 0] = everything.mean()
    # To begin with, anything may be: the first round then believes what was measured.
    covariance = prior + (scale * np.eye(SIZE)) ** 2
    solve = [_ridge(inputs, settings.difference_ridge if block else settings.ridge) for block in range(len(ENCODERS))]
    for _ in range(_ROUNDS):
        filled, doubt = _expect(rows, values, inputs @ weights.T, covariance, noise)
        blocks = np.split(filled, len(ENCODERS), axis=1)
        weights = np.vstack([(by @ block).T for by, block in zip(solve, blocks, strict=True)])
        residuals = filled - inputs @ weights.T
        covariance = (residuals.T @ residuals + doubt + settings.trust * prior) / (len(filled) + settings.trust)
    return FigureModel(
        figure=figure,
        centre=centre,
        spread=spread,
        weights=weights,
        covariance=covariance,
        shared=_shared(residuals, sources),
        noise=noise,
    )


def _ridge(inputs: Vector, pull: float) -> Vector:
    """What makes weights of targets; the first input, a constant, is not held back."""
    penalty = pull * np.eye(inputs.shape[1])
    penalty[0, 0] = 1e-6
    solve: Vector = np.linalg.inv(inputs.T @ inputs + penalty) @ inputs.T
    return solve


def _gather(
    figure: str, lessons: Sequence[Lesson]
) -> tuple[list[Vector], list[Vector], Vector, Vector, Vector, list[str]]:
    rows, values, features, sources = [], [], [], []
    for lesson in lessons:
        points = [p for p in lesson.points if figure in p.figures and p.encoder in ENCODERS]
        if not points:
            continue
        rows.append(np.array([knot_weights(p.encoder, p.crf) for p in points]))
        values.append(np.asarray(to_scale(figure, np.array([p.figures[figure] for p in points]))))
        features.append(lesson.features)
        sources.append(lesson.source)
    table = np.array(features)
    centre, spread = table.mean(axis=0), np.maximum(table.std(axis=0), _LEAST_SPREAD)
    inputs = np.hstack([np.ones((len(table), 1)), (table - centre) / spread])
    return rows, values, inputs, centre, spread, sources


def _expect(
    rows: list[Vector], values: list[Vector], means: Vector, covariance: Vector, noise: float
) -> tuple[Vector, Vector]:
    """(each scene's vector as believed, the sum of the covariances of what is left in doubt)."""
    filled, doubt = np.empty_like(means), np.zeros_like(covariance)
    for k, (row, value) in enumerate(zip(rows, values, strict=True)):
        gain = covariance @ row.T @ np.linalg.inv(row @ covariance @ row.T + noise * np.eye(len(row)))
        filled[k] = means[k] + gain @ (value - row @ means[k])
        doubt += covariance - gain @ row @ covariance
    return filled, doubt


def _shared(residuals: Vector, sources: list[str]) -> float:
    """How alike the residuals of scenes of one source are: their correlation; 0 where no source has two scenes."""
    total = float((residuals**2).sum() / len(residuals))
    products: list[float] = []
    for k, mine in enumerate(sources):
        others = [n for n, other in enumerate(sources) if other == mine and n > k]
        products += [float(residuals[k] @ residuals[n]) / total for n in others]
    return float(np.clip(np.mean(products), 0, _LARGEST_SHARED)) if products else 0.0


def _smooth_covariance(settings: CurveFitSettings) -> Vector:
    """Curves that bend slowly over CRF, and encoders that differ little; in shares of the variance of all points."""
    crfs = np.array(KNOTS, np.float64)
    along = np.exp(-0.5 * ((crfs[:, None] - crfs[None]) / 25) ** 2) + 0.02 * np.eye(len(KNOTS))
    shares = np.array([settings.residual] + [settings.difference] * (len(ENCODERS) - 1))
    return np.asarray(np.kron(np.diag(shares**2), along), np.float64)
