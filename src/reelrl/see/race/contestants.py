"""Who takes part in a race: contestants by name, on each source, with each seed."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reelrl.errors import ConfigError
from reelrl.names import did_you_mean
from reelrl.see.settings import RATES, AutoEncoderSettings
from reelrl.settings import config

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class RaceContestant:
    """One learner: who, on what, with which first weights."""

    name: str
    source: str
    settings: AutoEncoderSettings

    @property
    def key(self) -> tuple[str, str, int | None]:
        return self.name, self.source, self.settings.seed

    @property
    def file_name(self) -> str:
        """Of its weights: Breakout-default-0.safetensors."""
        return f"{_slug(self.source)}-{_slug(self.name)}-{self.settings.seed}.safetensors"


def contestant_settings(text: str) -> AutoEncoderSettings:
    """Settings meant by "default", an optimiser ("adam"), or "config:NAME"; "+key=value" changes single ones."""
    base, *changes = text.split("+")
    defaults = AutoEncoderSettings()
    if base == "default":
        chosen = defaults
    elif base.startswith("config:"):
        chosen = _named(base.removeprefix("config:"))
    elif base in RATES:
        chosen = config.merge(defaults, {"optimiser": {"name": base, "lr": None}})
    else:
        raise ConfigError(f"contestant {base!r} is unknown{did_you_mean(base, ['default', 'config:NAME', *RATES])}")
    return config.override(chosen, changes)


def _named(name: str) -> AutoEncoderSettings:
    """The model's part of what `reel train autoencoder --config NAME` takes."""
    if name not in config.known_configs():
        raise ConfigError(f"no settings are named {name!r}{did_you_mean(name, config.known_configs())}")
    changes = config.read_yaml(config.CONFIGS / f"{name}.yaml")
    if "model" not in changes:
        raise ConfigError(f"settings {name!r} say nothing about the autoencoder; they have {', '.join(changes)}")
    return config.merge(AutoEncoderSettings(), changes["model"])


def contestants(names: Sequence[str], sources: Sequence[str], seeds: int) -> list[RaceContestant]:
    """Every one of `names` on every source with every seed; what shares a source stands together."""
    settings = {name: contestant_settings(name) for name in names}
    return [
        RaceContestant(name, source, replace(settings[name], seed=seed))
        for source in sources
        for name in names
        for seed in range(seeds)
    ]


def _slug(text: str) -> str:
    """A name that is good for a file."""
    return re.sub(r"[^A-Za-z0-9.=]+", "_", text.removeprefix("ale:"))
