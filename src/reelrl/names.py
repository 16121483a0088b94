"""Names people type, and the classes they stand for.

Each table maps a name to "module:Class". Nothing is imported before `resolve` asks for it, so a table may point to the
right in the picture of stages without making its readers import that stage.

`resolve` and `make` know the tables only, which is right for text that stands in a file. Where it was typed or comes
from Python, `foreign=True` lets it be "my_pkg.mine:Policy" (see `reelrl.file_trust`).
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import math
import os
import re
import sys
from typing import TYPE_CHECKING, Any

from reelrl.errors import ConfigError, shown
from reelrl.file_trust import files_are_trusted, is_foreign, refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

BACKENDS = {
    "svtav1": "reelrl.encode.codecs.svtav1:SvtAv1",
    "aom": "reelrl.encode.codecs.aom.backend:Aom",
}

# Gymnasium ids; `import reelrl` registers them.
ENVIRONMENTS: dict[str, str] = {
    "reelrl/Abr-v0": "reelrl.stream.simulator.env:ABREnv",
    "reelrl/SuperblockQP-v0": "reelrl.encode.superblock.env:SuperblockQpEnv",
    "Av1Env-v0": "reelrl.encode.superblock.env:SuperblockQpEnv",
    "reelrl/MiniGopQP-v0": "reelrl.encode.minigop.env:MiniGopQpEnv",
    "reelrl/FrameQP-v0": "reelrl.encode.frameqp.env:FrameQpEnv",
}

# One table per problem: a superblock map is no bitrate controller. All keep one contract (`make_controller`).
BITRATE_CONTROLLERS: dict[str, str] = {
    "lowest": "reelrl.stream.controllers.heuristics:Fixed",
    "rate": "reelrl.stream.controllers.heuristics:RateBased",
    "hyb": "reelrl.stream.controllers.heuristics:Hyb",
    "bba": "reelrl.stream.controllers.heuristics:Bba",
    "bola": "reelrl.stream.controllers.heuristics:Bola",
    "bola-e": "reelrl.stream.controllers.bola_e:BolaE",
    "dashjs": "reelrl.stream.controllers.dashjs:DashJs",
    "l2a": "reelrl.stream.controllers.l2a:L2a",
    "mpc": "reelrl.stream.controllers.mpc:Mpc",
    "robustmpc": "reelrl.stream.controllers.mpc:RobustMpc",
    "fugu": "reelrl.stream.controllers.fugu:Fugu",
    "comyco": "reelrl.stream.controllers.comyco:Comyco",
    "pensieve-ppo": "reelrl.stream.controllers.pensieve_ppo:PensievePpo",
    "ppo": "reelrl.stream.controllers.learned:Learned",
    "scalefree": "reelrl.stream.scalefree.controller:ScaleFree",
    "scalefree-safe": "reelrl.stream.scalefree.controller:ScaleFreeSafe",
    "scalefree-pensieve": "reelrl.stream.scalefree.controller:ScaleFreePensieve",
    "oracle": "reelrl.stream.controllers.oracle:Oracle",
}
MAP_CONTROLLERS: dict[str, str] = {
    "no-map": "reelrl.encode.superblock.maps:NoMap",
    "zero-map": "reelrl.encode.superblock.maps:ZeroMap",
    "variance-map": "reelrl.encode.superblock.maps:VarianceMap",
    "motion-map": "reelrl.encode.superblock.maps:MotionMap",
    "random-map": "reelrl.encode.superblock.maps:RandomMap",
    "learned-map": "reelrl.encode.superblock.learned:LearnedMap",
}
MINIGOP_CONTROLLERS: dict[str, str] = {
    "crf-replay": "reelrl.encode.minigop.controllers.rules:CrfReplay",
    "rate-model": "reelrl.encode.minigop.controllers.rules:RateModel",
    "auto-boost": "reelrl.encode.minigop.controllers.rules:AutoBoost",
    "leaky-bucket": "reelrl.encode.minigop.controllers.leaky_bucket:LeakyBucket",
    "direct-search": "reelrl.encode.minigop.controllers.oracle:DirectSearch",
    "sac": "reelrl.encode.minigop.controllers.learned:ShippedMiniGop",
}
FRAME_CONTROLLERS: dict[str, str] = {
    "own-quantisers": "reelrl.encode.frameqp.controllers.rules:OwnQuantisers",
    "rate-model": "reelrl.encode.frameqp.controllers.rules:FrameRateModel",
    "evolved": "reelrl.encode.frameqp.controllers.shipped:ShippedShape",
    "sac": "reelrl.encode.frameqp.controllers.shipped:ShippedSac",
}

# What the superblock environment observes.
STATES: dict[str, str] = {
    "naive": "reelrl.encode.superblock.states:NaiveState",
    "features": "reelrl.encode.superblock.states:FeatureState",
    "feedback": "reelrl.encode.superblock.states:FeedbackState",
    "summary": "reelrl.encode.superblock.summary_state:SummaryState",
}

# Where a learner that watches gets its pictures: the word before the colon of "ale:Breakout".
FEEDS: dict[str, str] = {
    "ale": "reelrl.content.feeds.kinds:AtariFeed",
    "gym": "reelrl.content.feeds.kinds:RenderFeed",
    "doom": "reelrl.act.doom.feed:DoomFeed",
    "file": "reelrl.content.feeds.kinds:FileFeed",
    "clip": "reelrl.content.feeds.kinds:ClipFeed",
}

# What can be played: the word before the colon of the same names.
PLAYED: dict[str, str] = {
    "ale": "reelrl.content.games.kinds:AtariGame",
    "gym": "reelrl.content.games.kinds:GymGame",
}

# Clips that are made, by the same word: "generated:cuts".
RECIPES: dict[str, str] = {
    "generated": "reelrl.content.generated.clips:generated_clip",
    "atari": "reelrl.content.atari:atari_clip",
}

# Who presses the buttons in clips of Atari games: `Hand(game, seed, player)(console, began)`.
HANDS: dict[str, str] = {
    "random": "reelrl.content.atari:RandomHand",
    "run": "reelrl.act.atari.evaluate:TrainedHand",
}

# How pictures become a file: `Writer(path, width, height, fps)` with `suffix`, `write(rgb)`, `close()`, `abort()`.
VIDEO_WRITERS: dict[str, str] = {
    "av1": "reelrl.encode.file.av1_writer:Av1Writer",
    "lossless": "reelrl.content.write.lossless:LosslessWriter",
}

# What a machine must have in common with another one for both to make the same bytes: functions without arguments.
MACHINE_FACTS: dict[str, str] = {
    "encoders": "reelrl.encode.codecs.machine_facts:encoder_facts",
    "vmaf": "reelrl.content.quality:vmaf_facts",
}

# Where modules lay that files of version 0.1 may name (`state: reelrl.encode.states:NaiveState`).
FORMER_MODULES: dict[str, str] = {
    "reelrl.act.doom_feed": "reelrl.act.doom.feed",
    "reelrl.act.location.eyes_net": "reelrl.act.location.frame_reader.net",
    "reelrl.act.pretrained_backbones": "reelrl.act.video.pretrained",
    "reelrl.act.video_backbones": "reelrl.act.video.backbones",
    "reelrl.content.feeds": "reelrl.content.feeds.kinds",
    "reelrl.content.generated": "reelrl.content.generated.clips",
    "reelrl.content.lossless": "reelrl.content.write.lossless",
    "reelrl.encode.aom": "reelrl.encode.codecs.aom.backend",
    "reelrl.encode.learned_maps": "reelrl.encode.superblock.learned",
    "reelrl.encode.maps": "reelrl.encode.superblock.maps",
    "reelrl.encode.minigop_controllers": "reelrl.encode.minigop.controllers.rules",
    "reelrl.encode.minigop_env": "reelrl.encode.minigop.env",
    "reelrl.encode.minigop_leaky_bucket": "reelrl.encode.minigop.controllers.leaky_bucket",
    "reelrl.encode.minigop_oracle": "reelrl.encode.minigop.controllers.oracle",
    "reelrl.encode.states": "reelrl.encode.superblock.states",
    "reelrl.encode.summary_state": "reelrl.encode.superblock.summary_state",
    "reelrl.encode.superblock_env": "reelrl.encode.superblock.env",
    "reelrl.encode.svtav1": "reelrl.encode.codecs.svtav1",
    "reelrl.encode.video_file": "reelrl.encode.file.av1_writer",
    "reelrl.stream.controllers": "reelrl.stream.controllers.heuristics",
    "reelrl.stream.env": "reelrl.stream.simulator.env",
    "reelrl.stream.learned": "reelrl.stream.controllers.learned",
    "reelrl.stream.mpc": "reelrl.stream.controllers.mpc",
    "reelrl.stream.oracle": "reelrl.stream.controllers.oracle",
}

# What classes were called there, by where their modules are now.
FORMER_CLASSES: dict[str, str] = {
    "reelrl.act.location.frame_reader.net:TrainedEyes": "FrameReaderEncoder",
    "reelrl.act.video.backbones:StreamingAutoEncoderEyes": "AutoEncoderBackbone",
}

# What `reel demo` shows, in this order.
DEMO_PARTS: dict[str, str] = {
    "encode": "reelrl.encode.demo.part:make",
    "rate": "reelrl.encode.demo.rate:make",
    "stream": "reelrl.stream.demo.part:make",
    "see": "reelrl.see.demo:make",
    "act": "reelrl.act.doom.demo:make",
    "locate": "reelrl.act.location.demo:make",
}

TABLES: dict[str, Mapping[str, str]] = {
    "backend": BACKENDS,
    "environment": ENVIRONMENTS,
    "bitrate controller": BITRATE_CONTROLLERS,
    "superblock map": MAP_CONTROLLERS,
    "mini-GOP controller": MINIGOP_CONTROLLERS,
    "frame controller": FRAME_CONTROLLERS,
    "state": STATES,
    "feed": FEEDS,
    "game": PLAYED,
    "recipe": RECIPES,
    "video": VIDEO_WRITERS,
    "machine fact": MACHINE_FACTS,
    "part of the demo": DEMO_PARTS,
}


def resolve(table: Mapping[str, str], name: str, *, foreign: bool = False) -> Any:
    """The object that `name` stands for in `table`; with `foreign`, "my_pkg.mine:Policy" is imported as written."""
    name = known(table, name, foreign=foreign)
    target = table.get(name, name)
    module_name, _, attribute = target.partition(":")
    module_name = FORMER_MODULES.get(module_name, module_name)
    attribute = FORMER_CLASSES.get(f"{module_name}:{attribute}", attribute)
    module = _import(module_name, target)
    try:
        return getattr(module, attribute)
    except AttributeError:
        public = [word for word in vars(module) if not word.startswith("_")]
        raise ConfigError(f"{module_name} has no {attribute!r}{did_you_mean(attribute, public)}") from None


def known(table: Mapping[str, str], name: Any, *, foreign: bool = False) -> str:
    """The name itself, if it may be resolved; nothing is imported."""
    if not isinstance(name, str):
        raise ConfigError(f"a {_kind(table)} has a name, and this is {shown(name)}{did_you_mean('', table)}")
    if name in table:
        return name
    if ":" not in name:
        raise ConfigError(f"unknown {_kind(table)} {shown(name)}{_elsewhere(name)}{did_you_mean(name, table)}")
    if not (foreign or files_are_trusted()):
        raise refusal(f"the {_kind(table)} is", name)
    if not is_foreign(name):
        raise ConfigError(f"cannot import {shown(name)}; write it as package.module:Class")
    return name


def make(table: Mapping[str, str], text: Any, *, foreign: bool = False) -> Any:
    """An object by name, made with the numbers in brackets behind it: "bba(5,10)"."""
    parts = _CALL.fullmatch(text) if isinstance(text, str) else None
    if parts is None:
        raise ConfigError(
            f"{shown(text)} is no name with numbers in one pair of brackets; write it like bba or bba(5,10)"
        )
    word, inside = parts["name"], parts["numbers"]
    kind = resolve(table, word, foreign=foreign)
    try:
        numbers = [_number(part) for part in inside.split(",")] if inside and inside.strip() else []
        for name, value in inspect.signature(kind).bind(*numbers).arguments.items():
            _check_fit(inspect.signature(kind).parameters[name], value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{text!r}: {error}; write numbers that {word} takes, as in bba(5,10)") from error
    return kind(*numbers)


def make_controller(table: Mapping[str, str], text: Any, *, foreign: bool = False) -> Any:
    """`make`, of something that keeps the contract of controllers; a foreign class may fail to."""
    made = make(table, text, foreign=foreign)
    missing = [name for name in ("reset", "act") if not callable(getattr(made, name, None))]
    missing += [] if isinstance(getattr(made, "privileged", None), bool) else ["privileged"]
    if missing:
        raise ConfigError(
            f"{text!r} is no controller: it lacks {', '.join(missing)}. A controller has reset(seed, episode), "
            "act(observation), and privileged = False (True: it needs to know the future)"
        )
    return made


def names_a_file(table: Mapping[str, str], text: str) -> bool:
    """Whether someone who typed `text` means a file, a run folder ("runs/0007") or "hub:user/name", and no name."""
    word = text.partition("(")[0].strip()
    if not word or word in table:
        return False
    if word.startswith("hub:"):  # also without a slash: "hub:name" is a mistyped place, and no module called hub
        return True
    return "/" in word or word.isdecimal() or word.endswith((".safetensors", ".pth")) or os.path.exists(text)  # noqa: PTH110 - never raises


def lazy(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose public names are imported when they are first used.

    `homes` says for each name in which module below the package it lies: {"ABREnv": "simulator.env"}.
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}{did_you_mean(name, homes)}")
        return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)

    def names_there() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return find, names_there


_LONGEST_WORD = 100  # finding the nearest takes longer the longer the word
_CALL = re.compile(r"\s*(?P<name>[^()\s]+)\s*(?:\((?P<numbers>[^()]*)\))?\s*")


def _number(text: str) -> float | int:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{text.strip()!r} is not a finite number")
    return int(value) if value.is_integer() else value


def _check_fit(parameter: inspect.Parameter, value: Any) -> None:
    """Refuse a number where the signature wants a path, and 2.5 where it wants a whole number."""
    types = set(re.findall(r"\w+", str(parameter.annotation)))
    if parameter.annotation is not parameter.empty and not types & {"int", "float", "bool", "Any"}:
        raise TypeError(f"{parameter.name} is no number but {parameter.annotation}")
    if isinstance(value, float) and types & {"int", "bool"} and "float" not in types:
        raise TypeError(f"{parameter.name} = {value} is not a whole number")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of an error message: the nearest known words, else all of them."""
    words = sorted(known)
    close = difflib.get_close_matches(word[:_LONGEST_WORD], words, n=2, cutoff=0.6)
    if close:
        return "; did you mean " + " or ".join(repr(match) for match in close) + "?"
    if not words:
        return "; there are none to choose from"
    return "; choose from " + ", ".join(words)


def _elsewhere(name: str) -> str:
    """What the word means in another table, as part of an error message."""
    return next((f", which is a {kind}" for kind, table in TABLES.items() if name in table), "")


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
