"""Superblock maps x clips x QPs: who is compared, and the rate-distortion points of each, encoded in parallel.

A contestant is a map controller (compared with the same encoder without maps) or one of the encoder's own modes
(compared with the encoder's plain crf): like with like. Every encode is cached on disk, so an evaluation that was
killed goes on where it stood, and a contestant more costs only its own encodes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reelrl.content.catalogue import split_of
from reelrl.encode.clip_choice import PRISTINE
from reelrl.encode.codecs.backends import capabilities
from reelrl.encode.codecs.settings import MAX_OFFSET, EncoderSettings
from reelrl.encode.features import clip_features
from reelrl.encode.superblock.learned import LearnedMap, load_map_controller
from reelrl.encode.superblock.map_policy import MapPolicy
from reelrl.encode.superblock.maps import ZERO_MAP
from reelrl.encode.superblock.measure import CHEAP, Maps, Measured, measure
from reelrl.encode.superblock.over_time import TIME_RULE, rule_shifts, shifted
from reelrl.errors import ConfigError
from reelrl.names import MAP_CONTROLLERS, names_a_file
from reelrl.parallel import executor
from reelrl.runs.progress import Progress
from reelrl.storage.cache import Format, cached, key_of
from reelrl.storage.files import cache_dir

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.content.clip import Clip

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
class SuperblockEvaluationPlan:
    """What everybody is put through alike.

    frames   of each window; 1: still pictures
    windows  of each clip, spread over it; the first begins where the clip does
    encoder  without maps; QPs come from `qps`
    """

    # A BD-rate takes four points. Nine QP steps or so halve the bits: these span almost three halvings, the rates
    # that people use, and a map's curve shares most of its qualities with the anchor's.
    qps: tuple[int, ...] = (28, 36, 44, 52)
    frames: int = 30
    windows: int = 1
    metrics: tuple[str, ...] = CHEAP
    encoder: EncoderSettings = EncoderSettings(backend="aom", picture_qp=True)  # noqa: RUF009 - frozen
    seed: int = 0

    def __post_init__(self) -> None:
        if len(set(self.qps)) < 2:
            raise ConfigError(f"{len(set(self.qps))} QPs; a curve takes two, and four to be trusted")
        if min(self.frames, self.windows) < 1:
            raise ConfigError(f"frames = {self.frames}, windows = {self.windows}; use 1 or more of each")

    @property
    def over_time(self) -> bool:
        """The rule over time says something: there is more than one frame."""
        return self.frames > 1


@dataclass(frozen=True)
class EncodePoint:
    """One encode of one window of a clip by one contestant."""

    contestant: str
    clip: str
    window: int
    source: str
    split: str
    pristine: bool
    qp: int
    measured: Measured

    def row(self) -> dict[str, Any]:
        """Flat, for a table."""
        record: dict[str, Any] = asdict(self)
        measured: dict[str, Any] = record.pop("measured")
        quality: dict[str, float] = measured.pop("quality")
        return record | measured | quality


def encode_all(
    contestants: Sequence[MapContestant], clips: Sequence[Clip], plan: SuperblockEvaluationPlan, jobs: int = 1
) -> list[EncodePoint]:
    """Every contestant on every clip at every QP, anchors included, in the order of the arguments."""
    everyone = with_anchors(contestants, plan.over_time)
    _check_names(everyone)
    for contestant in everyone:
        _prepare(contestant)
    # A task is all QPs of a contestant on a clip: with its frames the clip travels to a worker once, not once per QP.
    tasks = [
        (contestant, number, replace(window, name=clip.name), plan)
        for clip in clips
        for number, window in enumerate(_windows(clip, plan))
        for contestant in everyone
    ]
    points: list[EncodePoint] = []
    with Progress("encode", len(tasks) * len(plan.qps), unit="encodes") as progress, executor(jobs) as work:
        for batch in work.map(_encode_points, tasks, name=lambda task: f"{task[0].name} on {task[2].name}"):
            points += batch
            progress.update(len(batch))
    return points


def _windows(clip: Clip, plan: SuperblockEvaluationPlan) -> list[Clip]:
    frames = min(plan.frames, clip.frame_count)
    starts = [number * (clip.frame_count - frames) // plan.windows for number in range(plan.windows)]
    return [clip.window(start, frames).load() for start in starts]


def with_anchors(contestants: Sequence[MapContestant], over_time: bool = True) -> list[MapContestant]:
    """The contestants, after those that they are compared with, and in tables over time that rule beside no map."""
    timed = [TIME_RULE] if over_time else []
    needed = dict.fromkeys([NO_MAP, *timed, *(contestant.anchor for contestant in contestants)])
    given = {contestant.name for contestant in contestants}
    return [MapContestant(name, name) for name in needed if name not in given] + list(contestants)


def _check_names(contestants: Sequence[MapContestant]) -> None:
    names = [contestant.name for contestant in contestants]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two contestants are called {name!r}; name them: NAME=SPEC")


def _encode_points(task: tuple[MapContestant, int, Clip, SuperblockEvaluationPlan]) -> list[EncodePoint]:
    contestant, window, clip, plan = task
    pristine = clip.source.startswith(PRISTINE)
    points = []
    for qp in plan.qps:
        encoder = replace(plan.encoder, qp=qp)
        if contestant.is_mode:
            # With a QP for every picture the quantisers are ours; an encoder's own modes need crf, where it decides.
            encoder = replace(encoder, rate_control="crf", picture_qp=False, options=contestant.options)
            measured = measure(clip, encoder, metrics=plan.metrics)
        else:
            maps, qps = _decisions(contestant, clip, encoder, plan.seed)
            measured = measure(clip, encoder, maps, metrics=plan.metrics, qps=qps)
        where = (contestant.name, clip.name, window, clip.source, split_of(clip.source), pristine)
        points.append(EncodePoint(*where, qp, measured))
    return points


# -- maps of a contestant ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Episode:
    """What a map controller may know of a clip beforehand."""

    features: NDArray[np.float32]
    grid: tuple[int, int]
    weights: NDArray[np.float32]
    settings: EncoderSettings


def _prepare(contestant: MapContestant) -> None:
    """Complain about what cannot be loaded before anything is encoded."""
    if contestant.is_mode:
        _ = contestant.options
    elif contestant.spec.endswith(".yaml"):
        MapPolicy.load(contestant.spec)
    elif contestant.spec != TIME_RULE:
        load_map_controller(contestant.spec)


def _decisions(
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
