"""What a map can win on one clip: a search superblock by superblock, at equal quality, with every encode cached.

simple   maps that follow one feature of the source, both ways and at two strengths
probe    each superblock alone two steps up and two down: its own parabola, and where that is lowest
combine  all superblocks at their lowest at once, at several strengths
refine   from the best so far, one superblock one step further, most promising first, while the budget lasts

The map is the same for every frame of the window: it can move bits in space, not in time (a lower QP on the key frame
alone wins several percent over a flat one, and is another problem). The search sees the encodes it is judged by, so
its result is what can be had at most for this clip and QP; `transfer` says what is left of it on other frames.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reelrl.encode.codecs.backends import capabilities
from reelrl.encode.codecs.settings import MAX_OFFSET, EncoderSettings
from reelrl.encode.features import clip_features
from reelrl.encode.superblock.maps import map_inputs, map_of, named_weights
from reelrl.encode.superblock.measure import LocalCurve, Measured, measure, static
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.content.clip import Clip

_STRENGTHS = (0.4, 0.7, 1.0, 1.4, 2.0)
_SIMPLE_FEATURES = ("variance", "gradient", "motion", "residual", "luma", "centre")
_SIMPLE_STRENGTHS = (-0.8, -0.4, 0.4, 0.8)


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """encoder   without maps; its QP is the point where rate and quality are compared
    step         QP steps of a probe
    refinements  encodes spent on single steps after the combination
    """

    encoder: EncoderSettings = field(default_factory=lambda: EncoderSettings(backend="aom", qp=38))
    step: int = 2
    refinements: int = 30

    def __post_init__(self) -> None:
        if not 1 <= self.step <= MAX_OFFSET:
            raise ConfigError(f"step = {self.step}; use 1 to {MAX_OFFSET}")
        if self.refinements < 0:
            raise ConfigError(f"refinements = {self.refinements}; use 0 or more")


@dataclass(frozen=True)
class SearchResult:
    """The best map of a search.

    percent    bytes against no map at equal quality; 0 where no map was better than none
    simple     the same of the best map that follows one feature
    combined   the same before refinement
    roughness  of the clip's curve without maps, in percent: gains below it may be luck
    encodes    that the search asked for, those found in the cache included; `seconds` is their CPU time when made
    """

    metric: str
    offsets: NDArray[np.int32]
    percent: float
    simple: float
    combined: float
    roughness: float
    encodes: int
    seconds: float


class _Ledger:
    """Encodes of one clip and what they cost."""

    def __init__(self, clip: Clip, settings: SearchSettings, metrics: Sequence[str]) -> None:
        self.clip, self.settings, self.metrics = clip, settings, metrics
        self.encodes, self.seconds = 0, 0.0

    def percent(self, offsets: NDArray[np.int32], curve: LocalCurve) -> float:
        return curve.percent(self.measured(offsets, [curve.metric]))

    def measured(self, offsets: NDArray[np.int32], metrics: Sequence[str] = ()) -> Measured:
        """An encode with the map in every frame; measured by all metrics unless some are named."""
        maps = static(offsets, self.clip.frame_count)
        point = measure(self.clip, self.settings.encoder, maps, metrics=metrics or self.metrics)
        self.encodes += 1
        self.seconds += point.seconds
        return point


def search(clip: Clip, settings: SearchSettings, metrics: Sequence[str] = ("psnr_y", "ssim_db")) -> list[SearchResult]:
    """The best map for each metric. Metrics share their probes."""
    if not capabilities(settings.encoder.backend).exact_maps:
        raise ConfigError(
            f"backend = {settings.encoder.backend}: the search is for encoders where a map is exact and free; use aom"
        )
    clip = clip.load()
    curves = LocalCurve.around(clip, settings.encoder, metrics)
    ledger = _Ledger(clip, settings, metrics)
    simple, probes = _simple(ledger), _probe(ledger)
    shared = ledger.encodes, ledger.seconds
    results = []
    for metric in metrics:
        ledger.encodes, ledger.seconds = shared
        results.append(_best(ledger, curves[metric], simple, probes))
    return results


def transfer(clip: Clip, settings: SearchSettings, result: SearchResult) -> float:
    """Percent that its map saves on another window of the same clip."""
    clip = clip.load()
    curve = LocalCurve.around(clip, settings.encoder, [result.metric])[result.metric]
    point = measure(clip, settings.encoder, static(result.offsets, clip.frame_count), metrics=[result.metric])
    return curve.percent(point)


def _simple(ledger: _Ledger) -> list[tuple[NDArray[np.int32], Measured]]:
    """Maps that follow one feature, averaged over the window."""
    inputs = map_inputs(clip_features(ledger.clip), ledger.clip.grid).mean(0)
    tried = []
    for feature in _SIMPLE_FEATURES:
        for strength in _SIMPLE_STRENGTHS:
            offsets = map_of(inputs, named_weights(**{feature: strength}))
            tried.append((offsets, ledger.measured(offsets)))
    return tried


def _probe(ledger: _Ledger) -> list[tuple[Measured, Measured]]:
    """Each superblock alone, down and up."""
    superblocks, step = ledger.clip.superblock_count, ledger.settings.step
    probes = []
    for superblock in range(superblocks):
        pair = []
        for offset in (-step, step):
            offsets = np.zeros(superblocks, np.int32)
            offsets[superblock] = offset
            pair.append(ledger.measured(offsets))
        probes.append((pair[0], pair[1]))
    return probes


def _best(
    ledger: _Ledger,
    curve: LocalCurve,
    simple: list[tuple[NDArray[np.int32], Measured]],
    probes: list[tuple[Measured, Measured]],
) -> SearchResult:
    none = np.zeros(len(probes), np.int32)
    at_rest = ledger.percent(none, curve)
    tried = [(at_rest, none), *((curve.percent(point), offsets) for offsets, point in simple)]
    best_simple = min(percent for percent, _ in tried)
    sides = np.array([[curve.percent(down), curve.percent(up)] for down, up in probes]) - at_rest
    lowest = _lowest(sides, ledger.settings.step)
    for strength in _STRENGTHS:
        offsets = np.clip(np.rint(strength * lowest), -MAX_OFFSET, MAX_OFFSET).astype(np.int32)
        tried.append((ledger.percent(offsets, curve), offsets))
    percent, offsets = min(tried, key=lambda pair: pair[0])
    combined = percent
    order = np.argsort(sides.min(1))
    percent, offsets = _refined(ledger, curve, offsets, percent, order)
    return SearchResult(
        metric=curve.metric,
        offsets=offsets,
        percent=percent - at_rest,
        simple=best_simple - at_rest,
        combined=combined - at_rest,
        roughness=curve.roughness,
        encodes=ledger.encodes,
        seconds=ledger.seconds,
    )


def _lowest(sides: NDArray[np.float64], step: int) -> NDArray[np.float64]:
    """Where the parabola through (-step, down), (0, 0), (step, up) of each superblock is lowest; [superblocks]."""
    down, up = sides.T
    slope, bend = (up - down) / (2 * step), (up + down) / (2 * step**2)
    # Where it bends the wrong way the better side is as good as it gets.
    better = np.where(up < down, float(step), float(-step)) * (np.minimum(up, down) < 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = -slope / (2 * bend)
    lowest: NDArray[np.float64] = np.clip(np.where(bend > 1e-9, inside, better), -MAX_OFFSET, MAX_OFFSET)
    return lowest


def _refined(
    ledger: _Ledger,
    curve: LocalCurve,
    offsets: NDArray[np.int32],
    percent: float,
    order: NDArray[np.intp],
) -> tuple[float, NDArray[np.int32]]:
    """Coordinate steps, each taken only if it is measured to be better."""
    moves = [(superblock, step) for superblock in order for step in (-1, 1)]
    for superblock, step in moves[: ledger.settings.refinements]:
        tried = offsets.copy()
        tried[superblock] += step
        if abs(tried[superblock]) > MAX_OFFSET:
            continue
        moved = ledger.percent(tried, curve)
        if moved < percent:
            percent, offsets = moved, tried
    return percent, offsets
