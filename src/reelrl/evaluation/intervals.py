"""How sure a mean is: bootstrap intervals, and paired ones for comparisons on the same content."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from reelrl.errors import ConfigError

Floats = npt.NDArray[np.float64]

RESAMPLES = 4000


class Interval(NamedTuple):
    """A mean and its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.4f} [{self.low:.4f}, {self.high:.4f}]"


def mean_interval(values: Floats, *, level: float = 0.95, seed: int = 0, resamples: int = RESAMPLES) -> Interval:
    """The mean of `values` with a percentile bootstrap interval; one value alone is its own interval."""
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise ConfigError(f"an interval needs a list of finite numbers, got shape {values.shape}; drop what is missing")
    rng = np.random.default_rng(seed)
    means = np.empty(resamples)
    for start in range(0, resamples, 256):  # in slices, so that a million values do not take gigabytes
        size = min(256, resamples - start)
        means[start : start + size] = values[rng.integers(len(values), size=(size, len(values)))].mean(axis=1)
    tail = (1.0 - level) / 2
    low, high = np.quantile(means, [tail, 1.0 - tail])
    return Interval(float(values.mean()), float(low), float(high))


def paired_interval(ours: Floats, theirs: Floats, *, level: float = 0.95, seed: int = 0) -> Interval:
    """The mean of `ours - theirs` on the same content. Content varies more than controllers do: always compare so."""
    if np.shape(ours) != np.shape(theirs):
        raise ConfigError(
            f"{np.shape(ours)} against {np.shape(theirs)} values; a paired comparison needs the same content"
        )
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
