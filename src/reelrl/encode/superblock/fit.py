"""A map policy of a dozen numbers, fitted to a quality metric by evolution, and saved as a small YAML file.

features of a frame ──► map_inputs ──► weights ──► offsets    weaker after the first frame, none where little changes

The inputs are standardised within each frame, so a policy carries over to clips and resolutions it has not seen. It
moves bits in space only: the weight of `constant`, which would move whole frames, stays zero. A policy that does not
pay on frames it was not fitted on says so (`abstains`) and then sends no maps at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from reelrl.content.clip import Clip
from reelrl.encode.codecs.settings import MAX_OFFSET, EncoderSettings
from reelrl.encode.features import MOTION_RESIDUAL, clip_features
from reelrl.encode.superblock.maps import MAP_FEATURES, action_of, map_inputs, map_of, named_weights
from reelrl.encode.superblock.measure import METRICS, LocalCurve, Maps, measure, weights_of
from reelrl.errors import ConfigError, ContentError, shown
from reelrl.names import did_you_mean
from reelrl.settings import yaml_text
from reelrl.storage.files import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from reelrl.encode.superblock.maps import MapEpisode

    Floats = NDArray[np.float32]
    Vector = NDArray[np.float64]

FORMAT = "reelrl-superblock-map-1"
_REFERENCE_QP = 40
_WEIGHED = ("variance", "gradient", "motion", "residual")  # more inputs fit the clips' luck, not the next clip
_IN_STILLS = 2  # of them: nothing moves in one frame
_FIRST_WEIGHT = 0.5
_RIDGE = 0.3  # percent of bits that a weight of 1 must earn: of two maps alike, the calmer one


def largest_weight(reach: int) -> float:
    """Of a policy whose offsets may reach so far: two standard deviations of an input are then far beyond it."""
    return 2.0 * reach / MAX_OFFSET


@dataclass(frozen=True)
class MapPolicy:
    """Weights of features, and when to send nothing.

    weights       by the names in MAP_FEATURES; those not named are zero
    inter_share   of the weights that counts in frames after the first: what a first frame spends serves all others
    least_change  levels at QP 40, doubling every ten QPs: frames whose motion-compensated difference is smaller on
                  average are sent without a map, because in nearly empty frames the map itself is what costs
    abstains      it was not seen to pay on frames beside those it was fitted on: no map at all
    importance    the weighing (`moving`, `centre`, ...) whose superblock means are an input, if any
    reach         largest offset in QP steps; beyond 3 encoders must be able to (`Capabilities.largest_offset`)
    facts         how it came about
    """

    weights: dict[str, float]
    inter_share: float = 1.0
    least_change: float = 0.0
    abstains: bool = False
    importance: str | None = None
    reach: int = MAX_OFFSET
    facts: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (type(self.reach) is int and self.reach >= 1):
            raise ConfigError(f"reach = {shown(self.reach)} in a map policy; use a whole number of QP steps, 1 or more")
        most = largest_weight(self.reach)
        for name, value in self.weights.items():
            if name not in MAP_FEATURES:
                raise ConfigError(f"unknown feature {name!r} in a map policy{did_you_mean(name, MAP_FEATURES)}")
            if not (_is_number(value) and abs(value) <= most):
                raise ConfigError(f"weight of {name} is {shown(value)}; use -{most:g} to {most:g}")
        for name in ("inter_share", "least_change"):
            value = getattr(self, name)
            if not (_is_number(value) and value >= 0):
                raise ConfigError(f"{name} = {shown(value)} in a map policy; use a number, 0 or more")
        for name, kind in (("abstains", bool), ("importance", str | None), ("facts", dict)):
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise ConfigError(f"{name} = {shown(value)} in a map policy; fit it anew")

    def maps_of_clip(self, clip: Clip, qp: int) -> Maps:
        """The map of each frame of a clip."""
        importance = weights_of(clip, self.importance).blocks if self.importance else None
        return self.maps(clip_features(clip), clip.grid, qp, importance)

    def maps(self, features: Floats, grid: tuple[int, int], qp: int, importance: Floats | None = None) -> Maps:
        """The map of each frame from features [frames, 8, superblocks]; None where none is sent."""
        if self.abstains:
            return [None] * len(features)
        inputs, weights = map_inputs(features, grid, importance), named_weights(**self.weights)
        empty = features[:, MOTION_RESIDUAL].mean(1) < self.least_change * 2 ** ((qp - _REFERENCE_QP) / 10)
        maps = [map_of(inputs[0], weights, self.reach)]
        maps += [map_of(each, self.inter_share * weights, self.reach) for each in inputs[1:]]
        return [
            offsets if offsets.any() and (number == 0 or not empty[number]) else None
            for number, offsets in enumerate(maps)
        ]

    def save(self, path: str | Path) -> None:
        """Write the policy as YAML."""
        content = {"format": FORMAT, **{key: value for key, value in vars(self).items() if value is not None}}
        write_atomic(path, yaml.safe_dump(content, sort_keys=False, width=110))

    @classmethod
    def load(cls, path: str | Path) -> MapPolicy:
        """The policy in a YAML file; nothing in it is executed."""
        content = yaml_text.read(path, error=ContentError)
        if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
            raise ContentError(f"{path} is no map policy: it does not say 'format: {FORMAT}'; fit it anew")
        unknown = [key for key in content if key not in cls.__dataclass_fields__]
        if unknown or not isinstance(content.get("weights"), dict):
            raise ContentError(f"{path}: {f'unknown {shown(unknown[0])}' if unknown else 'no weights'}; fit it anew")
        return cls(**content)


class FittedMap:
    """A policy as a controller."""

    privileged = False

    def __init__(self, policy: MapPolicy | str | Path) -> None:
        self.policy = policy if isinstance(policy, MapPolicy) else MapPolicy.load(policy)
        if self.policy.reach > MAX_OFFSET:
            raise ConfigError(f"offsets up to {self.policy.reach}; the environment's actions reach {MAX_OFFSET}")

    def reset(self, seed: int, episode: MapEpisode) -> None:  # noqa: ARG002 - the protocol's
        """Take the clip's features."""
        self._maps = iter(self.policy.maps(episode.features, episode.grid, episode.settings.qp, episode.weights))

    def act(self, observation: Any) -> NDArray[np.int64] | None:  # noqa: ARG002 - the protocol's
        """The map of the next frame."""
        offsets = next(self._maps)
        return None if offsets is None else action_of(offsets)


# -- fitting -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """objective    a metric by name; bits at equal quality by it are what is minimised
    frames          of each window; 1: still pictures
    windows         of each clip, spread over it; a single one begins at a third of it, that of the check at two thirds
    reach           largest offset in QP steps
    qps             each window is encoded at two of them, the windows taking turns
    population      policies tried in each generation
    spread          first deviation of weights, where the best single feature begins at 0.5
    """

    objective: str = "weighted:moving"
    frames: int = 12
    windows: int = 1
    qps: tuple[int, ...] = (30, 36, 42, 48)
    population: int = 8
    generations: int = 8
    spread: float = 0.3
    reach: int = MAX_OFFSET
    seed: int = 0
    encoder: EncoderSettings = field(default_factory=lambda: EncoderSettings(backend="aom"))

    def __post_init__(self) -> None:
        if self.objective not in METRICS:
            raise ConfigError(f"unknown objective {self.objective!r}{did_you_mean(self.objective, METRICS)}")
        if min(self.frames, self.windows) < 1 or self.population < 4 or self.generations < 0 or not self.qps:
            raise ConfigError(
                f"frames = {self.frames}, windows = {self.windows}, population = {self.population}, "
                f"generations = {self.generations}, {len(self.qps)} QPs; at least 1, 1, 4, 0 and 1"
            )
        if not 0 < self.spread < math.inf:
            raise ConfigError(f"spread = {self.spread}; use a number above 0, such as 0.3")

    @property
    def importance(self) -> str | None:
        kind, _, name = self.objective.partition(":")
        return name if kind == "weighted" else None

    @property
    def names(self) -> tuple[str, ...]:
        """Features that are weighed."""
        weighed = _WEIGHED[:_IN_STILLS] if self.frames == 1 else _WEIGHED
        return (*weighed, "importance") if self.importance else weighed

    @property
    def size(self) -> int:
        """Numbers that are fitted: where frames follow, two say how much counts in them, and when nothing does."""
        return len(self.names) + (2 if self.frames > 1 else 0)


@dataclass(frozen=True)
class Case:
    """A window of a clip at a QP; `curve` is what no maps give around it."""

    clip: Clip
    encoder: EncoderSettings
    curve: LocalCurve

    def saving(self, policy: MapPolicy) -> float:
        """Bytes against no map at equal quality, in percent; exactly zero when the policy sends nothing."""
        maps = policy.maps_of_clip(self.clip, self.encoder.qp)
        if all(offsets is None for offsets in maps):
            return 0.0
        return self.curve.percent(measure(self.clip, self.encoder, maps, metrics=[self.curve.metric]))


Everywhere = Callable[[Callable[[Any], float], Iterable[Any]], Iterator[float]]
"""How a function is applied to many things: `map`, or that of a pool of processes."""


def cases(clips: Sequence[Clip], settings: FitSettings, place: float, turn: int = 0) -> list[Case]:
    """Windows of each clip at one or two QPs, the first at a share of its length; a clip's cases stand together."""
    made = []
    count = len(settings.qps)
    for number, clip in enumerate(clips):
        frames = min(settings.frames, clip.frame_count)
        for each in range(settings.windows):
            share = (each + place) / settings.windows
            window = clip.window(round(share * (clip.frame_count - frames)), frames).load()
            for step in sorted({0, count // 2}):
                encoder = replace(settings.encoder, qp=settings.qps[(number + each + turn + step) % count])
                curve = LocalCurve.around(window, encoder, [settings.objective])[settings.objective]
                made.append(Case(window, encoder, curve))
    return made


def fit(
    clips: Sequence[Clip],
    settings: FitSettings,
    everywhere: Everywhere = map,
    on_policy: Callable[[int, float], None] = lambda _encodes, _best: None,
) -> MapPolicy:
    """The policy that saves most on the clips: the best single feature, then evolution around it.

    `on_policy` is called for every policy tried: with the encodes it took, and the best saving so far in percent.
    """
    if not clips:
        raise ConfigError("no clips to fit a map policy on; give at least one")
    fitting = cases(clips, settings, 1 / 3)
    best = (0.0, np.zeros(settings.size))
    tried = 0

    def cost(vector: Vector) -> float:
        nonlocal best, tried
        saved = _savings(policy_of(vector, settings), fitting, everywhere)
        tried += 1
        penalised = float(saved.mean()) + _RIDGE * float(np.square(vector[: len(settings.names)]).sum())
        if penalised < best[0]:
            best = (penalised, vector)
        on_policy(len(fitting), best[0])
        return penalised

    start = min(_singles(settings), key=cost)
    evolve(cost, start, settings.spread, settings.population, settings.generations, settings.seed)
    facts = {"fitted_percent": round(best[0], 3), "policies_tried": tried, "encodes": (tried + 16) * len(fitting)}
    return _checked(policy_of(best[1], settings), clips, settings, everywhere, facts)


def policy_of(vector: Vector, settings: FitSettings) -> MapPolicy:
    """The policy that a point of the search space stands for; rounded, so that the file holds all of it."""
    most = largest_weight(settings.reach)
    count = len(settings.names)
    bounded = np.clip(vector[:count] * settings.reach / MAX_OFFSET, -most, most)
    share, least = vector[count:] if len(vector) > count else (0.0, 0.0)
    return MapPolicy(
        {name: round(float(value), 4) for name, value in zip(settings.names, bounded, strict=True)},
        inter_share=round(float(np.clip(0.5 + share, 0, 1.5)), 4),
        least_change=round(float(2 ** (1 + 4 * np.clip(least, -2, 2))), 4),
        importance=settings.importance,
        reach=settings.reach,
    )


def _checked(
    policy: MapPolicy, clips: Sequence[Clip], settings: FitSettings, everywhere: Everywhere, facts: dict[str, Any]
) -> MapPolicy:
    """The policy with what it does on frames beside those it was fitted on; it abstains if that is no clear saving."""
    checking = cases(clips, settings, 2 / 3, turn=1)
    saved = _savings(policy, checking, everywhere).reshape(len(clips), -1).mean(1)
    error = float(saved.std(ddof=1) / math.sqrt(len(saved))) if len(saved) > 1 else math.inf
    # One-sided at 95 %, by the normal law; a single clip proves nothing.
    abstains = not float(saved.mean()) + 1.645 * error < 0
    facts = {"objective": settings.objective} | facts
    facts |= {
        "check_percent": round(float(saved.mean()), 3),
        "check_error": round(error, 3) if math.isfinite(error) else None,
        "check_by_clip": {clip.name: round(float(each), 2) for clip, each in zip(clips, saved, strict=True)},
        "frames": settings.frames,
        "windows": settings.windows,
        "qps": list(settings.qps),
        "seed": settings.seed,
    }
    return replace(policy, abstains=abstains, facts=facts)


def _savings(policy: MapPolicy, judged: Sequence[Case], everywhere: Everywhere) -> Vector:
    return np.array(list(everywhere(_saving, [(case, policy) for case in judged])))


def evolve(
    cost: Callable[[Vector], float], start: Vector, step: float, population: int, generations: int, seed: int
) -> None:
    """CMA-ES (Hansen 2016) in its plain form: minimises `cost`, which keeps the best point it has seen.

    Rank-mu and rank-one updates, cumulative step-size control; weights fall with the logarithm of the rank.
    """
    rng, size, half = np.random.default_rng(seed), len(start), population // 2
    share = np.log(half + 0.5) - np.log(np.arange(1, half + 1))
    share /= share.sum()
    effective = 1 / np.square(share).sum()
    c_step = (effective + 2) / (size + effective + 5)
    c_path = (4 + effective / size) / (size + 4 + 2 * effective / size)
    c_one = 2 / ((size + 1.3) ** 2 + effective)
    c_mu = min(1 - c_one, 2 * (effective - 2 + 1 / effective) / ((size + 2) ** 2 + effective))
    damping = 1 + c_step + 2 * max(0.0, math.sqrt((effective - 1) / (size + 1)) - 1)
    normal_length = math.sqrt(size) * (1 - 1 / (4 * size) + 1 / (21 * size**2))
    mean, covariance = start.astype(np.float64), np.eye(size)
    path, step_path = np.zeros(size), np.zeros(size)
    for _ in range(generations):
        values, axes = np.linalg.eigh(covariance)
        root = axes * np.sqrt(np.maximum(values, 1e-12))
        drawn = rng.standard_normal((population, size)) @ root.T
        ranked = drawn[np.argsort([cost(mean + step * direction) for direction in drawn])[:half]]
        moved = share @ ranked
        mean = mean + step * moved
        whitened = axes @ ((axes.T @ moved) / np.sqrt(np.maximum(values, 1e-12)))
        step_path = (1 - c_step) * step_path + math.sqrt(c_step * (2 - c_step) * effective) * whitened
        path = (1 - c_path) * path + math.sqrt(c_path * (2 - c_path) * effective) * moved
        rank_mu = (ranked.T * share) @ ranked
        covariance = (1 - c_one - c_mu) * covariance + c_one * np.outer(path, path) + c_mu * rank_mu
        step *= math.exp(c_step / damping * (float(np.linalg.norm(step_path)) / normal_length - 1))


def _singles(settings: FitSettings) -> list[Vector]:
    """Each feature alone, both ways."""
    made = []
    for index in range(len(settings.names)):
        for sign in (-1, 1):
            vector = np.zeros(settings.size)
            vector[index] = sign * _FIRST_WEIGHT
            made.append(vector)
    return made


def _saving(task: tuple[Case, MapPolicy]) -> float:
    case, policy = task
    return case.saving(policy)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
