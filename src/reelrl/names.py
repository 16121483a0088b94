"""Names people type, and the classes they stand for.

Each table maps a name to "module:Class". Nothing is imported before `resolve` asks for it, so a table may point to the
right in the picture of stages without making its readers import that stage.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from typing import TYPE_CHECKING, Any

from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BACKENDS = {
    "svtav1": "reelrl.encode.svtav1:SvtAv1",
    "aom": "reelrl.encode.aom:Aom",
}

# Gymnasium ids; `import reelrl` registers them.
ENVIRONMENTS: dict[str, str] = {
    "reelrl/Abr-v0": "reelrl.stream.env:ABREnv",
    "reelrl/SuperblockQP-v0": "reelrl.encode.superblock_env:SuperblockQpEnv",
    "Av1Env-v0": "reelrl.encode.superblock_env:SuperblockQpEnv",
    "reelrl/MiniGopQP-v0": "reelrl.encode.minigop_env:MiniGopQpEnv",
}

CONTROLLERS: dict[str, str] = {
    # bitrate control
    "lowest": "reelrl.stream.controllers:Fixed",
    "rate": "reelrl.stream.controllers:RateBased",
    "bba": "reelrl.stream.controllers:Bba",
    "bola": "reelrl.stream.controllers:Bola",
    "mpc": "reelrl.stream.mpc:Mpc",
    "robustmpc": "reelrl.stream.mpc:RobustMpc",
    "ppo": "reelrl.stream.learned:Learned",
    "oracle": "reelrl.stream.oracle:Oracle",
    # superblock maps
    "no-map": "reelrl.encode.maps:NoMap",
    "zero-map": "reelrl.encode.maps:ZeroMap",
    "variance-map": "reelrl.encode.maps:VarianceMap",
    "motion-map": "reelrl.encode.maps:MotionMap",
    "random-map": "reelrl.encode.maps:RandomMap",
    "learned-map": "reelrl.encode.learned_maps:LearnedMap",
    # mini-GOP QP
    "crf-replay": "reelrl.encode.minigop_controllers:CrfReplay",
    "rate-model": "reelrl.encode.minigop_controllers:RateModel",
    "auto-boost": "reelrl.encode.minigop_controllers:AutoBoost",
    "leaky-bucket": "reelrl.encode.minigop_leaky_bucket:LeakyBucket",
    "direct-search": "reelrl.encode.minigop_oracle:DirectSearch",
}

# What the superblock environment observes.
STATES: dict[str, str] = {
    "naive": "reelrl.encode.states:NaiveState",
    "features": "reelrl.encode.states:FeatureState",
    "feedback": "reelrl.encode.states:FeedbackState",
    "summary": "reelrl.encode.summary_state:SummaryState",
}

# Where a learner that watches gets its pictures: the word before the colon of "ale:Breakout".
FEEDS: dict[str, str] = {
    "ale": "reelrl.content.feeds:AtariFeed",
    "gym": "reelrl.content.feeds:RenderFeed",
    "doom": "reelrl.act.doom_feed:DoomFeed",
    "file": "reelrl.content.feeds:FileFeed",
    "clip": "reelrl.content.feeds:ClipFeed",
}

# How pictures become a file: `Writer(path, width, height, fps)` with `suffix`, `write(rgb)`, `close()`, `abort()`.
VIDEO_WRITERS: dict[str, str] = {
    "av1": "reelrl.encode.video_file:Av1Writer",
    "lossless": "reelrl.content.lossless:LosslessWriter",
}

TABLES: dict[str, Mapping[str, str]] = {
    "backend": BACKENDS,
    "environment": ENVIRONMENTS,
    "controller": CONTROLLERS,
    "state": STATES,
    "feed": FEEDS,
    "video": VIDEO_WRITERS,
}


def resolve(table: Mapping[str, str], name: str) -> Any:
    """The object that `name` stands for in `table`; a foreign "my_pkg.mine:Policy" is imported as it is written."""
    target = name if ":" in name else table.get(name)
    if target is None:
        raise ConfigError(f"unknown {_kind(table)} {name!r}{did_you_mean(name, table)}")
    module_name, _, attribute = target.partition(":")
    module = _import(module_name, target)
    try:
        return getattr(module, attribute)
    except AttributeError:
        public = [word for word in vars(module) if not word.startswith("_")]
        raise ConfigError(f"{module_name} has no {attribute!r}{did_you_mean(attribute, public)}") from None


def make(table: Mapping[str, str], text: str) -> Any:
    """An object by name, made with the numbers in brackets behind it: "bba(5,10)"."""
    word, _, rest = text.partition("(")
    kind = resolve(table, word.strip())
    try:
        numbers = [_number(part) for part in rest.removesuffix(")").split(",") if part.strip()]
        inspect.signature(kind).bind(*numbers)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{text!r}: {error}; write numbers that {word} takes, as in bba(5,10)") from error
    return kind(*numbers)


def _number(text: str) -> float | int:
    value = float(text)
    return int(value) if value.is_integer() else value


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of an error message: the nearest known words, else all of them."""
    words = sorted(known)
    close = difflib.get_close_matches(word, words, n=2, cutoff=0.6)
    if close:
        return "; did you mean " + " or ".join(repr(match) for match in close) + "?"
    if not words:
        return "; there are none to choose from"
    return "; choose from " + ", ".join(words)


def _kind(table: Mapping[str, str]) -> str:
    return next((kind for kind, known in TABLES.items() if known is table), "name")


def _import(module_name: str, target: str) -> Any:
    try:
        return importlib.import_module(module_name)
    except (ModuleNotFoundError, ValueError, TypeError) as error:
        missing = getattr(error, "name", None)
        # An import that fails inside the module is that module's own error and keeps its traceback.
        if missing is not None and not f"{module_name}.".startswith(f"{missing}."):
            raise
        raise ConfigError(
            f"cannot import {target!r}: no module {module_name!r}; install it or add its folder to PYTHONPATH"
        ) from error
