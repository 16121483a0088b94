"""Bitrate ladders: which rungs a video offers, and how large each segment is at each rung.

read_ladder(path) -> Ladder    our ladder.json, Sabre's movie.json, a folder of Pensieve's video_size_N, or parsed JSON
ladder.video(trace) -> Video   the numbers an episode runs on, with everything the ladder left open filled in
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reelrl.errors import ConfigError, ContentError
from reelrl.storage.files import write_atomic
from reelrl.stream.data.trace_formats import parse_document, read_text, shown

if TYPE_CHECKING:
    from reelrl.stream.data.traces import Trace

Floats = npt.NDArray[np.float64]

PENSIEVE_KBPS = (300.0, 750.0, 1200.0, 1850.0, 2850.0, 4300.0)
PENSIEVE_CHUNK_S = 4.0
PENSIEVE_CHUNKS = 48
MAX_RUNGS = 64
MAX_SEGMENTS = 100_000
MAX_SIZE_RATIO = 4.0
MIN_CHUNK_S = 0.01
QUALITY_NAMES = ("vmaf", "psnr", "ssim")


@dataclass(frozen=True, eq=False)
class Video:
    """What an episode downloads: `sizes_bytes[chunk, rung]`, each `chunk_s` long."""

    bitrates_kbps: Floats
    chunk_s: float
    sizes_bytes: Floats
    quality: Mapping[str, Floats] = field(default_factory=dict)

    @property
    def chunks(self) -> int:
        """Segments per rung."""
        return int(self.sizes_bytes.shape[0])

    @property
    def rungs(self) -> int:
        """Choices per decision."""
        return int(self.sizes_bytes.shape[1])

    def relative_sizes(self) -> Floats:
        """How large each chunk is relative to its nominal size, over all rungs, (chunks,)."""
        share: Floats = (self.sizes_bytes / (self.bitrates_kbps * self.chunk_s * 125.0)).mean(axis=1)
        return share


@dataclass(frozen=True, eq=False)
class Ladder:
    """A ladder as a file gives it; `None` is what the file does not say. `quality` holds per-segment scores by name."""

    name: str
    bitrates_kbps: Floats
    chunk_s: float | None = None
    sizes_bytes: Floats | None = None
    quality: Mapping[str, Floats] = field(default_factory=dict)
    chunks: int | None = None

    def __post_init__(self) -> None:
        _check_bitrates(self.name, self.bitrates_kbps)
        if self.chunk_s is not None and not MIN_CHUNK_S <= self.chunk_s <= 3600:
            raise ContentError(f"{self.name}: chunk_s = {self.chunk_s}; a segment lasts {MIN_CHUNK_S} to 3600 s")
        if self.chunks is not None and not 0 < self.chunks <= MAX_SEGMENTS:
            raise ContentError(f"{self.name}: chunks = {self.chunks}; a video has 1 to {MAX_SEGMENTS}")
        if self.sizes_bytes is not None:
            _check_sizes(self.name, self.sizes_bytes, len(self.bitrates_kbps))
        for key, scores in self.quality.items():
            _check_quality(self.name, key, scores, self.sizes_bytes)

    @property
    def complete(self) -> bool:
        """Whether nothing is left open: the video is the same on every trace."""
        return self.chunk_s is not None and (self.chunks is not None or self.sizes_bytes is not None)

    def video(self, trace: Trace | None = None) -> Video:
        """The episode's numbers. What the ladder leaves open comes from the trace: median slot, one chunk per slot."""
        if len(self.bitrates_kbps) < 2:
            raise ContentError(
                f"{self.name}: the ladder has 1 rung, {self.bitrates_kbps[0]:g} kbit/s, so there is nothing to choose; "
                f"give 2 to {MAX_RUNGS}"
            )
        chunk_s, chunks = self.chunk_s, self.chunks
        if self.sizes_bytes is not None:
            chunks = len(self.sizes_bytes)
        if trace is None and (chunk_s is None or chunks is None):
            raise ConfigError(
                f"{self.name}: the ladder gives no {'chunk_s' if chunk_s is None else 'sizes_bytes'}, and "
                "there is no single trace to take it from; add it"
            )
        if chunk_s is None and trace is not None:
            chunk_s = float(np.median(trace.durations_ms)) / 1000.0
        if chunks is None and trace is not None:
            chunks = len(trace)
        sizes = self.sizes_bytes
        if sizes is None:
            sizes = np.tile(self.bitrates_kbps * (float(chunk_s or 0) * 1000.0) / 8.0, (int(chunks or 0), 1))
        else:
            _check_ratio(self.name, self.bitrates_kbps, sizes, float(chunk_s or 0))
        if not sizes.min() >= 1.0:
            raise ContentError(f"{self.name}: a segment of {sizes.min():g} bytes; each has at least 1. Check the units")
        return Video(self.bitrates_kbps, float(chunk_s or 0), sizes, self.quality)

    def as_json(self) -> dict[str, Any]:
        """The ladder as our JSON holds it."""
        document: dict[str, Any] = {"bitrates_kbps": self.bitrates_kbps.tolist()}
        if self.chunk_s is not None:
            document["chunk_s"] = self.chunk_s
        if self.chunks is not None and self.sizes_bytes is None:
            document["chunks"] = self.chunks
        if self.sizes_bytes is not None:
            document["sizes_bytes"] = self.sizes_bytes.tolist()
        return document | {key: scores.tolist() for key, scores in self.quality.items()}


def nominal_ladder(
    bitrates_kbps: Sequence[float] = PENSIEVE_KBPS, chunk_s: float = PENSIEVE_CHUNK_S, chunks: int = PENSIEVE_CHUNKS
) -> Ladder:
    """The built-in ladder: Pensieve's rates, every segment exactly as large as its rate says."""
    return Ladder("nominal", np.array(bitrates_kbps, dtype=np.float64), chunk_s, chunks=chunks)


def read_ladder(source: Any) -> Ladder:
    """A ladder from a file, a folder, parsed JSON, or the word `nominal`."""
    if isinstance(source, Ladder):
        return source
    if source == "nominal":
        return nominal_ladder()
    if isinstance(source, Mapping):
        return _from_document("ladder", source)
    if not isinstance(source, str | Path):
        raise ContentError(f"a ladder source is of type {type(source).__name__}; give a path, a folder or parsed JSON")
    path = Path(source)
    if path.is_dir() and (path / "ladder.json").is_file():
        path = path / "ladder.json"
    if path.is_dir():
        return _from_video_sizes(path)
    return _from_document(str(path), parse_document(str(path), read_text(path)))


def write_ladder(ladder: Ladder, path: Path) -> None:
    """Save as our ladder.json."""
    write_atomic(path, json.dumps(ladder.as_json()))


def _from_document(name: str, document: Any) -> Ladder:
    if not isinstance(document, Mapping) or "bitrates_kbps" not in document:
        raise ContentError(f'{name}: bitrates_kbps is missing; a ladder is {{"bitrates_kbps": [300, 750, ...]}}')
    rates = _array(name, "bitrates_kbps", document["bitrates_kbps"], 1)
    chunk_s = document.get("chunk_s")
    sizes = document.get("sizes_bytes")
    if "segment_duration_ms" in document:  # Sabre's movie.json: milliseconds and bits
        chunk_s = _scalar(name, "segment_duration_ms", document["segment_duration_ms"]) / 1000.0
    table = None if sizes is None else _array(name, "sizes_bytes", sizes, 2)
    if "segment_sizes_bits" in document:
        table = _array(name, "segment_sizes_bits", document["segment_sizes_bits"], 2) / 8.0
    quality = {key: _array(name, key, document[key], 2) for key in QUALITY_NAMES if key in document}
    chunks = document.get("chunks")
    if chunks is not None and (isinstance(chunks, bool) or not isinstance(chunks, int)):
        raise ContentError(f"{name}: chunks = {shown(chunks)}; give a whole number, 1 to {MAX_SEGMENTS}")
    return Ladder(name, rates, None if chunk_s is None else _scalar(name, "chunk_s", chunk_s), table, quality, chunks)


def _from_video_sizes(folder: Path) -> Ladder:
    """Pensieve's video_size_0 (lowest rung) upwards, one segment size per line."""
    columns: list[Floats] = []
    while (file := folder / f"video_size_{len(columns)}").is_file() and len(columns) < MAX_RUNGS:
        columns.append(_array(str(file), "line", read_text(file).split(), 1))
    if not columns:
        raise ContentError(
            f"{folder}: neither ladder.json nor video_size_0 is in this folder; give a ladder file or such a folder"
        )
    lengths = {len(column) for column in columns}
    if len(lengths) > 1 or lengths == {1}:
        raise ContentError(
            f"{folder}: the video_size files have {sorted(lengths)} lines; all need the same number, 2 or more"
        )
    # The files hold one segment more than is played: Pensieve ends at 48 of 49.
    sizes = np.stack(columns, axis=1)[:-1]
    # The files do not say their rates. Six that are about as large as Pensieve's have Pensieve's, as everybody reads
    # them; those of other ladders (ABRBench's has 1 to 40 Mbit/s) are as fast as they are large.
    rates = sizes.mean(axis=0) * 8.0 / PENSIEVE_CHUNK_S / 1000.0
    if len(columns) == len(PENSIEVE_KBPS) and (np.abs(np.log(rates / PENSIEVE_KBPS)) < np.log(1.5)).all():
        rates = np.array(PENSIEVE_KBPS)
    return Ladder(folder.name, rates, PENSIEVE_CHUNK_S, sizes)


def _scalar(name: str, key: str, value: Any) -> float:
    return float(_array(name, key, [value], 1)[0])


def _array(name: str, key: str, values: Any, ndim: int) -> Floats:
    try:
        array = np.array(values, dtype=np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise ContentError(
            f"{name}: {key} = {shown(values)} is not a table of numbers with equal rows; write numbers only"
        ) from error
    if array.ndim != ndim or array.size == 0:
        raise ContentError(
            f"{name}: {key} has shape {array.shape}; it needs {ndim} dimension{'s' * (ndim > 1)} and at least one entry"
        )
    if not np.isfinite(array).all():
        index = np.argwhere(~np.isfinite(array))[0].tolist()
        raise ContentError(f"{name}: {key}{index} = {array[tuple(index)]}; every entry must be finite")
    return array


def _check_bitrates(name: str, kbps: Floats) -> None:
    if len(kbps) > MAX_RUNGS:
        raise ContentError(f"{name}: {len(kbps)} rungs; a ladder has 1 to {MAX_RUNGS}")
    if kbps[0] <= 0:
        raise ContentError(f"{name}: bitrates_kbps[0] = {kbps[0]:g}; rates are above 0")
    falling = np.flatnonzero(np.diff(kbps) <= 0)
    if len(falling):
        i = int(falling[0]) + 1
        raise ContentError(
            f"{name}: bitrates_kbps[{i}] = {kbps[i]:g} after {kbps[i - 1]:g}; sort the rungs so that rates increase"
        )
    if kbps[0] >= 100_000:
        raise ContentError(
            f"{name}: bitrates_kbps[0] = {kbps[0]:g}, above 100 Mbit/s for the lowest rung; the file probably "
            "holds bit/s: divide by 1000"
        )
    if kbps[-1] < 10:
        raise ContentError(
            f"{name}: bitrates_kbps[{len(kbps) - 1}] = {kbps[-1]:g}, below 10 kbit/s for the highest rung; "
            "the file probably holds Mbit/s: multiply by 1000"
        )


def _check_sizes(name: str, sizes: Floats, rungs: int) -> None:
    if sizes.shape[1] != rungs:
        raise ContentError(
            f"{name}: sizes_bytes[0] has {sizes.shape[1]} entries for {rungs} bitrates; give one size per rung"
        )
    if len(sizes) > MAX_SEGMENTS:
        raise ContentError(f"{name}: {len(sizes)} segments; at most {MAX_SEGMENTS} are read")
    if not (sizes > 0).all():
        chunk, rung = np.argwhere(~(sizes > 0))[0].tolist()
        raise ContentError(f"{name}: sizes_bytes[{chunk}][{rung}] = {sizes[chunk, rung]:g}; sizes are above 0")


def _check_ratio(name: str, kbps: Floats, sizes: Floats, chunk_s: float) -> None:
    ratios = sizes.mean(axis=0) / (kbps * chunk_s * 125.0)
    wrong = np.flatnonzero((ratios > MAX_SIZE_RATIO) | (ratios < 1 / MAX_SIZE_RATIO))
    if len(wrong):
        rung = int(wrong[0])
        hint = "bits written as bytes" if 7 < ratios[rung] < 9 else "another ladder's sizes, or a wrong chunk_s"
        raise ContentError(
            f"{name}: rung {rung} is {kbps[rung]:g} kbit/s but its segments average {ratios[rung]:.3g} times that; "
            f"within {MAX_SIZE_RATIO:g} times is allowed. Look for {hint}"
        )


def _check_quality(name: str, key: str, scores: Floats, sizes: Floats | None) -> None:
    if sizes is None or scores.shape != sizes.shape:
        wanted = "sizes_bytes, which is missing" if sizes is None else f"sizes_bytes, {sizes.shape}"
        raise ContentError(f"{name}: {key} has shape {scores.shape}; it must match {wanted}")
