"""A map policy fitted to a quality metric by evolution.

A policy that does not pay on frames it was not fitted on says so (`abstains`) and then sends no maps at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.content.clip import Clip
from reelrl.encode.codecs.settings import MAX_OFFSET, EncoderSettings
from reelrl.encode.evolution import minimise
from reelrl.encode.superblock.map_policy import MapPolicy, largest_weight
from reelrl.encode.superblock.measure import METRICS, LocalCurve, measure
from reelrl.errors import ConfigError
from reelrl.names import did_you_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

_WEIGHED = ("variance", "gradient", "motion", "residual")  # more inputs fit the clips' luck, not the next clip
_IN_STILLS = 2  # of them: nothing moves in one frame
_FIRST_WEIGHT = 0.5
_RIDGE = 0.3  # percent of bits that a weight of 1 must earn: of two maps alike, the calmer one


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
    minimise(cost, start, settings.spread, settings.population, settings.generations, settings.seed)
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
