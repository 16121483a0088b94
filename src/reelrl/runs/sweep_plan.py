"""What `reel sweep` is asked for, as its YAML file says it.

train: abr                                  what follows `reel train`
arguments: [--config, abr-quick]            further words of that command
search:
ppo.learning_rate: {low: 1.0e-4, high: 3.0e-3, log: true}
hidden: {choices: [32, 64, 128]}
rollout: {low: 16, high: 64}              whole numbers where both ends are
figure: score                               of the run's metrics.jsonl
goal: maximise
trials: 20
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from reelrl.errors import ConfigError
from reelrl.runs.stages import STAGES

Value = int | float | str | bool

# Words that would send trials elsewhere or begin them otherwise than the sweep does.
_OURS = ("--set", "--seed", "--output-dir", "--resume", "--runs", "--trust")


@dataclass(frozen=True, kw_only=True)
class SearchedSetting:
    """Where a setting is looked for: between two ends, or among choices.

    log  as often between 1 and 10 as between 10 and 100
    """

    low: int | float | None = None
    high: int | float | None = None
    log: bool = False
    choices: tuple[Value, ...] = ()

    def __post_init__(self) -> None:
        if self.choices:
            if self.low is not None or self.high is not None:
                raise ConfigError(f"choices {list(self.choices)} and ends {self.low} to {self.high}; give one of both")
            return
        if self.low is None or self.high is None:
            raise ConfigError(f"low is {self.low}, high is {self.high}; give both, or `choices`")
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ConfigError(f"low is {self.low}, high is {self.high}; high must be above low")
        if self.log and self.low <= 0:
            raise ConfigError(f"low is {self.low}; a logarithmic search begins above 0")

    @property
    def whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)


@dataclass(frozen=True, kw_only=True)
class SweepPlan:
    """Which command is run how often, and what is searched.

    figure    of metrics.jsonl; with `goal`, what makes a trial better than another one
    take      the figure's `last` value of a run, its `best`, or the `mean` of its last quarter
    seeds     each trial trains once with every one; without a search, every seed is a trial
    prune     end trials early whose figure is worse than the median of others at the same step
    warmup    trials that are never ended early
    patience  figures that a trial has logged before it may be ended: the first ones say little
    """

    train: str
    figure: str
    goal: Literal["maximise", "minimise"] = "maximise"
    take: Literal["last", "best", "mean"] = "last"
    arguments: tuple[str, ...] = ()
    search: dict[str, SearchedSetting] = field(default_factory=dict)
    trials: int = 20
    seeds: tuple[int, ...] = (0,)
    prune: bool = True
    warmup: int = 5
    patience: int = 2

    def __post_init__(self) -> None:
        if self.train not in STAGES:
            raise ConfigError(f"train: {self.train!r} is no train command; use one of {', '.join(STAGES)}")
        if self.trials < 1 or not self.seeds:
            raise ConfigError(f"{self.trials} trials with {len(self.seeds)} seeds; use one or more of both")
        for word in self.arguments:
            if word.partition("=")[0] in _OURS and not word.startswith("--set="):
                raise ConfigError(f"arguments: {word!r} is the sweep's to give; leave it out, or write --set=KEY=VALUE")

    def words(self, chosen: dict[str, Value], seed: int, folder: str) -> list[str]:
        """The command of one training."""
        given = [f"--set={key}={_text(value)}" for key, value in chosen.items()]
        return [*STAGES[self.train].train.split(), *self.arguments, *given, f"--seed={seed}", f"--output-dir={folder}"]

    def taken(self, values: list[float]) -> float:
        """What counts of a run's figures, in their order; NaN where there is none."""
        finite = [value for value in values if math.isfinite(value)]
        if not finite:
            return math.nan
        if self.take == "last":
            return finite[-1]
        if self.take == "best":
            return max(finite) if self.goal == "maximise" else min(finite)
        quarter = finite[-max(1, len(finite) // 4) :]
        return sum(quarter) / len(quarter)


def nested(chosen: dict[str, Value]) -> dict[str, Any]:
    """Dotted keys as a YAML file of settings has them."""
    plain: dict[str, Any] = {}
    for key, value in chosen.items():
        *above, last = key.split(".")
        node = plain
        for part in above:
            node = node.setdefault(part, {})
        node[last] = value
    return plain


def _text(value: Value) -> str:
    """As `--set` reads it back: YAML takes 1e-05 for text, and True for true."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        mantissa, exponent, power = f"{value!r}".partition("e")
        return f"{mantissa}{'' if '.' in mantissa else '.0'}{exponent}{power}" if exponent else mantissa
    return str(value)
