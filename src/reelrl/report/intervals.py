"""How sure a mean is: bootstrap intervals, and paired ones for comparisons on the same content."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from reelrl.errors import ConfigError

Floats = npt.NDArray[np.float64]

RESAMPLES = 4000
LEAST_MATCHES = 5
"""A bootstrap of fewer cannot leave their range, and takes three matches for more than they are."""
TOO_FEW = f"Too few matches for an interval: with fewer than {LEAST_MATCHES} a mean is all that can be said."


# 97.5 % quantiles of Student's t for 1, 2, ... degrees of freedom.
_STUDENT = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622)


class Interval(NamedTuple):
    """A mean and its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.4f} [{self.low:.4f}, {self.high:.4f}]"

    @property
    def is_known(self) -> bool:
        """False where there was too little to know more than the mean."""
        return not math.isnan(self.low)

    def of(self, matches: int) -> Interval:
        """The same if it is over enough matches; over few of them, the mean alone."""
        return self if matches >= LEAST_MATCHES else Interval(self.mean, math.nan, math.nan)

    def plain(self) -> list[float | None]:
        """For JSON: [mean, low, high], the last two null where they are not known."""
        return [self.mean, *(value if self.is_known else None for value in (self.low, self.high))]


def mean_interval(values: Floats, *, level: float = 0.95, seed: int = 0, resamples: int = RESAMPLES) -> Interval:
    """The mean of `values` with a percentile bootstrap interval; one value alone is its own interval."""
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise ConfigError(f"an interval needs a list of finite numbers, got shape {values.shape}; drop what is missing")
    # A bootstrap, because figures of clips and traces are skewed: one bad outage outweighs twenty good minutes. With a
    # seed of its own, because the same results must give the same page.
    rng = np.random.default_rng(seed)
    means = np.empty(resamples)
    for start in range(0, resamples, 256):  # in slices, so that a million values do not take gigabytes
        size = min(256, resamples - start)
        means[start : start + size] = values[rng.integers(len(values), size=(size, len(values)))].mean(axis=1)
    tail = (1.0 - level) / 2
    low, high = np.quantile(means, [tail, 1.0 - tail])
    return Interval(float(values.mean()), float(low), float(high))


def seeds_interval(values: Floats) -> Interval:
    """The mean of one figure per seed with Student's 95 % interval, which is wide for few seeds, as it should be.

    A bootstrap of three values cannot leave their range, and so takes three seeds for more than they are.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all():
        raise ConfigError(f"an interval over seeds needs two finite numbers or more, got {values.tolist()}")
    half = _student(len(values) - 1) * float(values.std(ddof=1)) / math.sqrt(len(values))
    mean = float(values.mean())
    return Interval(mean, mean - half, mean + half)


def paired_interval(ours: Floats, theirs: Floats, *, level: float = 0.95, seed: int = 0) -> Interval:
    """The mean of `ours - theirs` on the same content. Content varies more than controllers do: always compare so."""
    if np.shape(ours) != np.shape(theirs):
        raise ConfigError(
            f"{np.shape(ours)} against {np.shape(theirs)} values; a paired comparison needs the same content"
        )
    # Of the differences, not of each side: what makes a clip hard makes it hard for both, and cancels.
    return mean_interval(
        np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64), level=level, seed=seed
    )


def quotient_interval(part: Floats, whole: Floats, *, level: float = 0.95, seed: int = 0) -> Interval:
    """The mean of `part` over the mean of `whole` on the same content; content is drawn again, pair by pair."""
    if np.shape(part) != np.shape(whole) or np.ndim(part) != 1 or not len(part):
        raise ConfigError(f"{np.shape(part)} against {np.shape(whole)} values; a quotient needs the same content")
    part, whole = np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64)
    drawn = np.random.default_rng(seed).integers(len(part), size=(RESAMPLES, len(part)))
    tail = (1.0 - level) / 2
    low, high = np.quantile(part[drawn].mean(axis=1) / whole[drawn].mean(axis=1), [tail, 1.0 - tail])
    return Interval(float(part.mean() / whole.mean()), float(low), float(high))


def _student(freedom: int) -> float:
    """From the table, and beyond it by the first terms of the expansion around the normal distribution."""
    if freedom <= len(_STUDENT):
        return _STUDENT[freedom - 1]
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
