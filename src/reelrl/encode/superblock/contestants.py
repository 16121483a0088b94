"""Who is compared in an evaluation of superblock maps, and what each decides: a map and a QP for each frame.

A contestant is a map controller (compared with the same encoder without maps) or one of the encoder's own modes
(compared with the encoder's plain crf): like with like.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reelrl.encode.codecs.backends import capabilities
from reelrl.encode.codecs.settings import MAX_OFFSET, EncoderSettings
from reelrl.encode.features import clip_features
from reelrl.encode.superblock.learned import LearnedMap, load_map_controller
from reelrl.encode.superblock.map_policy import MapPolicy
from reelrl.encode.superblock.maps import ZERO_MAP
from reelrl.encode.superblock.over_time import TIME_RULE, rule_shifts, shifted
from reelrl.errors import ConfigError
from reelrl.names import MAP_CONTROLLERS, names_a_file
from reelrl.storage.cache import Format, cached, key_of
from reelrl.storage.files import cache_dir

if TYPE_CHECKING:
    from reelrl.content.clip import Clip
    from reelrl.encode.superblock.measure import Maps

NO_MAP, CRF = "no-map", "crf"
HEURISTICS = (NO_MAP, TIME_RULE, "zero-map", "variance-map", "motion-map", "random-map")


@dataclass(frozen=True)
class MapContestant:
    """A line of the table: a name, what was asked for, and whom it is compared with."""

    name: str
    spec: str

    @staticmethod
    def parse(text: str) -> MapContestant:
        """`motion-map(0.5)`, `policy.yaml`, `runs/0007`, `crf:aq-mode=3`, each with `name=` before it if you like."""
        name, equals, spec = text.partition("=")
        if equals and ":" not in name:
            return MapContestant(name, spec)
        return MapContestant(Path(text).stem if text.endswith((".yaml", ".safetensors")) else text, text)

    @property
    def is_mode(self) -> bool:
        return self.spec == CRF or self.spec.startswith(CRF + ":")

    @property
    def is_timed(self) -> bool:
        """It may move whole frames, so it has to beat the rule that does."""
        return not self.is_mode and self.spec != TIME_RULE and _learned_over_time(self.spec)

    @property
    def anchor(self) -> str:
        if self.is_mode:
            return CRF
        return TIME_RULE if self.is_timed else NO_MAP

    @property
    def options(self) -> dict[str, str]:
        """The encoder's options of a mode."""
        pairs = [part.partition("=") for part in self.spec.partition(":")[2].split(",") if part]
        if not all(equals for _, equals, _ in pairs):
            raise ConfigError(f"{self.spec!r}: write the encoder's options like crf:aq-mode=3,deltaq-mode=0")
        return {key: value for key, _, value in pairs}


@dataclass(frozen=True)
class _Episode:
    """What a map controller may know of a clip beforehand."""

    features: NDArray[np.float32]
    grid: tuple[int, int]
    weights: NDArray[np.float32]
    settings: EncoderSettings


def prepare(contestant: MapContestant) -> None:
    """Complain about what cannot be loaded before anything is encoded."""
    if contestant.is_mode:
        _ = contestant.options
    elif contestant.spec.endswith(".yaml"):
        MapPolicy.load(contestant.spec)
    elif contestant.spec != TIME_RULE:
        load_map_controller(contestant.spec)


def decisions(
    contestant: MapContestant, clip: Clip, encoder: EncoderSettings, seed: int
) -> tuple[Maps | None, list[int] | None]:
    """Maps of a contestant and QPs of its frames, None where it leaves them alone."""
    if contestant.spec == TIME_RULE:
        return None, _rule_qps(clip, encoder)
    if contestant.is_timed:
        maps, qps = _learned(LearnedMap(contestant.spec), clip, encoder)
        return _none_if_empty(maps), qps
    return _maps(contestant, clip, encoder, seed), None


def _rule_qps(clip: Clip, encoder: EncoderSettings) -> list[int]:
    return [shifted(encoder.qp, shift) for shift in rule_shifts(clip_features(clip), clip.width, clip.height)]


def _learned_over_time(spec: str) -> bool:
    return names_a_file(MAP_CONTROLLERS, spec) and not spec.endswith(".yaml") and LearnedMap(spec).over_time


def _maps(contestant: MapContestant, clip: Clip, encoder: EncoderSettings, seed: int) -> Maps | None:
    if contestant.spec == NO_MAP:
        return None
    if contestant.spec.endswith(".yaml"):
        return _none_if_empty(MapPolicy.load(contestant.spec).maps_of_clip(clip, encoder.qp))
    controller = load_map_controller(contestant.spec)
    if isinstance(controller, LearnedMap):
        return _none_if_empty(_learned(controller, clip, encoder)[0])
    features = clip_features(clip)
    # Even weights: a heuristic must not know what a metric looks at; a fitted policy names its own weights.
    weights = np.ones((len(features), clip.superblock_count), np.float32)
    controller.reset(seed, _Episode(features, clip.grid, weights, encoder))
    return _none_if_empty([_offsets(controller.act(None), clip.superblock_count) for _ in range(len(features))])


def _none_if_empty(maps: Maps) -> Maps | None:
    """A contestant that never sends a map is the anchor, in the cache too."""
    return maps if any(offsets is not None for offsets in maps) else None


def _offsets(action: Any, superblocks: int) -> NDArray[np.int32] | None:
    """What an action of the environment sends."""
    if action is None:
        return None
    if action is ZERO_MAP:
        return np.zeros(superblocks, np.int32)
    offsets = (np.asarray(action) - MAX_OFFSET).astype(np.int32)
    return offsets if offsets.any() else None


def _learned(controller: LearnedMap, clip: Clip, encoder: EncoderSettings) -> tuple[Maps, list[int]]:
    """Maps and QPs of an agent that may look at what the encoder did: played once in its environment, then cached."""
    policy = hashlib.sha256(controller.path.read_bytes()).hexdigest()
    facts = [policy, clip.content_hash, asdict(encoder), capabilities(encoder.backend).version]
    path = cache_dir() / "learned-decisions" / f"{key_of(facts, 40)}.json"
    return cached(path, lambda: _played(controller, clip, encoder), _DECISIONS)


def _decision_bytes(decisions: tuple[Maps, list[int]]) -> bytes:
    maps, qps = decisions
    return json.dumps({"maps": [None if each is None else each.tolist() for each in maps], "qps": qps}).encode()


def _decisions_of(body: bytes) -> tuple[Maps, list[int]]:
    saved = json.loads(body)
    return [None if each is None else np.array(each, np.int32) for each in saved["maps"]], saved["qps"]


_DECISIONS: Format[tuple[Maps, list[int]]] = Format(_decision_bytes, _decisions_of)


def _played(controller: LearnedMap, clip: Clip, encoder: EncoderSettings) -> tuple[Maps, list[int]]:
    from reelrl.encode.superblock.env import SuperblockQpEnv

    env = SuperblockQpEnv(clip, encoder=encoder, **controller.env_options)
    try:
        observation, _ = env.reset(seed=0)
        controller.reset(0, env)
        maps: list[NDArray[np.int32] | None] = []
        qps: list[int] = []
        ended = False
        while not ended:
            observation, _, ended, _, info = env.step(controller.act(observation))
            maps.append(info["offsets"] if info["map_sent"] else None)
            qps.append(info["qp"])
        return maps, qps
    finally:
        env.close()
