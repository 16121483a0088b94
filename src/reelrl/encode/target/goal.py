"""What a user asks for, as `vmaf=93` or `vmaf=93,p5`."""

from __future__ import annotations

from dataclasses import dataclass

from reelrl.encode.target.scores import METRICS, POOLS, check_metric
from reelrl.errors import ConfigError
from reelrl.names import did_you_mean

# Figures that can be asked for, and how near is near: what 1 is for VMAF.
_RANGES = {"vmaf": (1.0, 99.5), "psnr": (15.0, 60.0), "ssim": (0.3, 0.9999), "xpsnr": (15.0, 60.0)}
_NEAR = {"vmaf": 1.0, "psnr": 0.4, "ssim": 0.004, "xpsnr": 0.4}


@dataclass(frozen=True)
class QualityTarget:
    """A figure to meet in every scene: a metric, its value, and how the frames of a scene are pooled."""

    metric: str
    value: float
    pool: str = "mean"

    def __post_init__(self) -> None:
        check_metric(self.metric)
        low, high = _RANGES[self.metric]
        if not low <= self.value <= high:
            raise ConfigError(f"target {self.metric} = {self.value:g}; use {low:g} to {high:g}")
        if self.pool not in POOLS:
            raise ConfigError(f"unknown pooling {self.pool!r}{did_you_mean(self.pool, POOLS)}; use {', '.join(POOLS)}")

    @classmethod
    def parse(cls, text: str) -> QualityTarget:
        """From `metric=value` or `metric=value,pool`."""
        metric, equals, rest = text.partition("=")
        value, _, pool = rest.partition(",")
        try:
            number = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise ConfigError(f"target {text!r}; write it like vmaf=93 or vmaf=93,p5 (metrics: {', '.join(METRICS)})")
        return cls(metric.strip().lower(), number, pool.strip().lower() or "mean")

    @property
    def figure(self) -> str:
        return f"{self.metric}.{self.pool}"

    @property
    def near(self) -> float:
        """A miss of so much is one that is noticed."""
        return _NEAR[self.metric]

    def __str__(self) -> str:
        return f"{self.metric}={self.value:g}" + ("" if self.pool == "mean" else f",{self.pool}")


def quality_range(text: str) -> tuple[float, float]:
    """The ends of `vmaf=60..95`: what the rungs of a ladder are to have."""
    metric, _, ends = text.partition("=")
    low, dots, high = ends.partition("..")
    try:
        first, last = float(low), float(high)
    except ValueError:
        dots = ""
    if not dots or metric.strip().lower() != "vmaf":
        raise ConfigError(f"target {text!r} of a ladder; write it like vmaf=60..95 (VMAF alone compares sizes here)")
    for value in (first, last):
        QualityTarget("vmaf", value)
    return first, last
