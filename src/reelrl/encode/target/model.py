"""The curve of a figure over CRF, as a belief: predicted from features, made sure by probes, shared within a file.

A scene's curve is a vector: the figure of a probe at `KNOTS` of CRF, then how much the whole scene by preset 8 differs
from its probe, then how much preset 4 differs from preset 8. Over many scenes it is taken as normal: its mean is linear
in the features, and the covariance knows what a probe at one CRF says about the whole scene at another, by another
preset. So a prediction comes with its uncertainty, and everything that is measured makes it surer by the same rule.

    lessons ──► fitted(figure) ──► FigureModel ──► FileBelief(model) ──► scene(features) ──► SceneBelief
                                                          ▲                                      │ observe(a probe)
                                                          └───────────── learn(scene) ◄──────────┘
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from reelrl.encode.target.lessons import BITS, KNOTS, PROBE
from reelrl.encode.target.spline import spline_weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

ENCODERS = (PROBE, "8", "4")
"""Each is described by its difference from the one before."""

SIZE = len(ENCODERS) * len(KNOTS)
LOWEST_CRF, HIGHEST_CRF, STEP = 8.0, 63.0, 0.25
CRFS = np.arange(LOWEST_CRF, HIGHEST_CRF + STEP / 2, STEP)
_FAST, _SLOW = 8, 4


@dataclass(frozen=True)
class FigureModel:
    """What is known of one figure over all scenes, in the scale of `to_scale`.

    centre, spread   of each feature
    weights          [SIZE, 1 + features]: mean of a scene's curve
    covariance       [SIZE, SIZE]: how scenes differ from it
    shared           0 to 1: the part of that variance which scenes of one file have in common
    noise            variance of one measured point around its scene's curve
    """

    figure: str
    centre: Vector
    spread: Vector
    weights: Vector
    covariance: Vector
    shared: float
    noise: float

    def mean(self, features: Vector) -> Vector:
        result: Vector = self.weights @ np.concatenate([[1.0], (np.asarray(features) - self.centre) / self.spread])
        return result


class FileBelief:
    """What scenes of one file have in common, as far as its earlier scenes say."""

    def __init__(self, model: FigureModel) -> None:
        self.model = model
        self._mean = np.zeros(SIZE)
        self._covariance = model.shared * model.covariance

    def scene(self, features: Vector) -> SceneBelief:
        own = (1 - self.model.shared) * self.model.covariance
        return SceneBelief(self.model, self.model.mean(features) + self._mean, self._covariance + own)

    def learn(self, scene: SceneBelief) -> None:
        """Take over what was measured of a scene of this file."""
        if not scene.seen:
            return
        rows, values, noise = (np.array(each) for each in zip(*scene.seen, strict=True))
        gain = self._covariance @ rows.T @ np.linalg.inv(rows @ scene.prior_covariance @ rows.T + np.diag(noise))
        self._mean = self._mean + gain @ (values - rows @ scene.prior_mean)
        self._covariance = _symmetric(self._covariance - gain @ rows @ self._covariance)


class SceneBelief:
    """A scene's curve: normal, with this mean and covariance until something is measured."""

    def __init__(self, model: FigureModel, mean: Vector, covariance: Vector) -> None:
        self.model = model
        self.prior_mean, self.prior_covariance = mean, covariance
        self._mean, self._covariance = mean, covariance
        self.seen: list[tuple[Vector, float, float]] = []  # (weights of the curve's vector, value in scale, variance)

    def observe(self, encoder: str, crf: float, figure: float) -> None:
        """A measured point: by a probe, or by the whole scene with a preset."""
        self._take(knot_weights(encoder, crf), figure, self.model.noise)

    def observe_encode(self, preset: int, crf: float, figure: float, doubt: float) -> None:
        """The whole scene by any preset, scored by a few frames: the figure has this standard deviation."""
        row = preset_weights(preset, crf)
        # As wide in scale as it is at this height of the curve.
        width = to_scale(self.model.figure, figure) - to_scale(self.model.figure, figure - doubt)
        self._take(row, figure, self.model.noise + float(width) ** 2)

    def _take(self, row: Vector, figure: float, noise: float) -> None:
        value = float(to_scale(self.model.figure, figure))
        self.seen.append((row, value, noise))
        gain = self._covariance @ row / (row @ self._covariance @ row + noise)
        self._mean = self._mean + gain * (value - row @ self._mean)
        self._covariance = _symmetric(self._covariance - np.outer(gain, row @ self._covariance))

    def curve(self, preset: int) -> tuple[Vector, Vector]:
        """(expected figure, its standard deviation) at each of `CRFS`, the whole scene by this preset."""
        rows = preset_rows(preset)
        scaled = rows @ self._mean
        variance = np.einsum("ij,jk,ik->i", rows, self._covariance, rows)
        expected = from_scale(self.model.figure, scaled)
        # How far a step of one in scale moves the figure, at this height of the curve.
        slope = (from_scale(self.model.figure, scaled + 1e-3) - expected) / 1e-3
        return expected, np.sqrt(np.maximum(variance, 0)) * np.abs(slope)

    def after_probe(self, crf: float, preset: int, at: int) -> float:
        """The standard deviation at `CRFS[at]` that would be left after a probe at `crf`, whatever it says."""
        row = knot_weights(PROBE, crf)
        gain = self._covariance @ row / (row @ self._covariance @ row + self.model.noise)
        left = self._covariance - np.outer(gain, row @ self._covariance)
        wanted = preset_rows(preset)[at]
        now, later = wanted @ self._covariance @ wanted, wanted @ left @ wanted
        return float(self.curve(preset)[1][at] * math.sqrt(max(later, 0) / max(now, 1e-12)))


def to_scale(figure: str, value: float | Vector) -> Vector:
    """A figure in the scale in which curves are nearly straight: VMAF is squeezed below 100, SSIM below 1."""
    kind, value = figure.partition(".")[0], np.asarray(value, np.float64)
    if kind == "vmaf":
        return -_VMAF_WIDTH * np.log1p(-np.clip(value, 0, 100) / _VMAF_ROOF)
    if kind == "ssim":
        return -10 * np.log10(np.maximum(1 - value, 1e-6))
    return value


def from_scale(figure: str, value: Vector) -> Vector:
    """The figure itself again."""
    kind = figure.partition(".")[0]
    if kind == "vmaf":
        return np.clip(-_VMAF_ROOF * np.expm1(-np.asarray(value) / _VMAF_WIDTH), 0, 100)
    if kind == "ssim":
        return 1 - 10 ** (-np.asarray(value) / 10)
    return np.asarray(value)


_VMAF_ROOF, _VMAF_WIDTH = 103.0, 10.0


def knot_weights(encoder: str, crf: float) -> Vector:
    """How a point of an encoder's curve is made of the curve's vector: a natural cubic spline over even steps."""
    blocks = 1 + ENCODERS.index(encoder)  # each differs from the one before it
    row = np.zeros(SIZE)
    row[: blocks * len(KNOTS)] = np.tile(spline_weights(_EVEN_KNOTS, evened(float(crf))), blocks)
    return row


def evened(crf: float) -> float:
    """CRF in steps that move a figure alike: the last before 63 moves it four times as far as one in the middle."""
    return crf + max(crf - 55.0, 0.0) ** 3 / 60


_EVEN_KNOTS = tuple(evened(crf) for crf in KNOTS)


def preset_weights(preset: int, crf: float) -> Vector:
    """The same for a whole scene by any preset: between those that were learned; beyond them, as the nearest."""
    share = (_FAST - min(max(preset, _SLOW), _FAST)) / (_FAST - _SLOW)
    return share * knot_weights("4", crf) + (1 - share) * knot_weights("8", crf)


@cache
def preset_rows(preset: int) -> Vector:
    """`preset_weights` at each of `CRFS`."""
    return np.array([preset_weights(preset, crf) for crf in CRFS])


def _symmetric(matrix: Vector) -> Vector:
    return (matrix + matrix.T) / 2


FIGURES = (
    *(f"{metric}.{pool}" for metric in ("vmaf", "psnr", "ssim", "xpsnr") for pool in ("mean", "harmonic", "p5", "p1")),
    BITS,
)


def figure_names(metrics: Sequence[str] = ()) -> list[str]:
    return [name for name in FIGURES if not metrics or name == BITS or name.partition(".")[0] in metrics]
