"""Embeddings in as few bytes as they are worth: quantise, code, write, read back.

    quantiser = Quantiser.fit(embeddings, worth, scale=0.5)        # from the training stream
    size_bytes = write_embeddings("seen.emb", embeddings, quantiser)
    embeddings = read_embeddings("seen.emb")                       # as quantised, to the last bit

Embeddings are a list of arrays, one per branch of the encoder, each (frames, channels, height, width).

    file: magic "RLEM", version u8, branches u8, frames u32, coded bytes u32, CRC-32 of all else u32;
          per branch channels u8, height u16, width u16; per channel centre f16, step f16, predictor u8; coded bytes
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.errors import ConfigError, ContentError
from reelrl.see.embeddings import range_coder
from reelrl.storage.files import explain_os_error, write_atomic
from reelrl.storage.regular_files import RESULT_BYTES, read_regular

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Arrays = Sequence[NDArray[np.floating[Any]]]
    Shape = tuple[int, int, int]

MAGIC, VERSION = b"RLEM", 1
_HEAD, _BRANCH, _CHANNEL = struct.Struct("<4sBBIII"), struct.Struct("<BHH"), struct.Struct("<eeB")
_CRC_PLACE = slice(14, 18)
_WIDEST_STEP = 60000.0  # of a half float; a channel with it is never sent
_MOST_NUMBERS = 2**28  # in one file; a damaged header must not ask for all memory


@dataclass(frozen=True)
class Quantiser:
    """centres  value that a channel's zero stands for, branch after branch
    steps       distance of two values of a channel

    Both are kept as half floats, as the file holds them.
    """

    centres: tuple[float, ...]
    steps: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.centres) != len(self.steps):
            raise ConfigError(f"{len(self.centres)} centres, {len(self.steps)} steps; give one of each per channel")
        for name in ("centres", "steps"):
            with np.errstate(over="ignore"):
                held = tuple(float(np.float16(value)) for value in getattr(self, name))
            object.__setattr__(self, name, held)
            if not np.isfinite(held).all() or (name == "steps" and min(held, default=1.0) <= 0):
                raise ConfigError(f"{name} are {held}; they must be finite (half floats), steps above 0")

    @classmethod
    def fit(cls, embeddings: Arrays, worth: Sequence[float], scale: float) -> Quantiser:
        """Steps that spend bits where they help most.

        `worth` is what a unit of noise variance on all of a channel costs, in the decoder's squared error. With n
        numbers in a channel, n bits halve its step and n / (worth step^2) is equal everywhere at the best spending:
        step = scale sqrt(n / worth). A channel that the decoder does not use is never sent.
        """
        channels = [branch[:, index] for branch in embeddings for index in range(branch.shape[1])]
        if len(channels) != len(worth):
            raise ConfigError(f"{len(channels)} channels, {len(worth)} values of their worth; give one each")
        sizes = [channel[0].size for channel in channels]
        steps = [scale * (size / max(value, 1e-12)) ** 0.5 for size, value in zip(sizes, worth, strict=True)]
        return cls(
            tuple(float(np.median(channel)) for channel in channels), tuple(min(step, _WIDEST_STEP) for step in steps)
        )

    def numbers(self, embeddings: Arrays) -> list[NDArray[np.int64]]:
        """Whole numbers of steps from the centre, nearest to the embeddings."""
        whole = []
        for branch, (centre, step) in self._by_branch(embeddings):
            if not np.isfinite(branch).all():
                raise ConfigError("an embedding is not finite; the model has diverged, go back to a good checkpoint")
            scaled = np.rint((branch.astype(np.float64) - centre) / step)
            if np.abs(scaled).max(initial=0) > range_coder.LARGEST // 4:
                raise ConfigError(f"a step of {step.min():g} is too fine for embeddings of this size; use wider steps")
            whole.append(scaled.astype(np.int64))
        return whole

    def values(self, numbers: Sequence[NDArray[np.int64]]) -> list[NDArray[np.float32]]:
        """Embeddings that the numbers stand for."""
        return [(branch * step + centre).astype(np.float32) for branch, (centre, step) in self._by_branch(numbers)]

    def _by_branch(self, branches: Sequence[NDArray[Any]]) -> list[tuple[NDArray[Any], tuple[Any, Any]]]:
        """Each branch with its centres and steps, shaped to go with it."""
        channels = [branch.shape[1] for branch in branches]
        if sum(channels) != len(self.steps):
            raise ConfigError(
                f"embeddings have {sum(channels)} channels, the quantiser {len(self.steps)}; fit one to these"
            )
        ends = np.cumsum(channels)[:-1]
        centres, steps = np.split(np.array(self.centres), ends), np.split(np.array(self.steps), ends)
        parts = zip(branches, centres, steps, strict=True)
        return [(branch, (centre[:, None, None], step[:, None, None])) for branch, centre, step in parts]


def encode_embeddings(embeddings: Arrays, quantiser: Quantiser, *, from_last_frame: bool = False) -> bytes:
    """The bytes of an embedding file. `from_last_frame` lets channels be coded as differences from the frame before."""
    if len({branch.shape[0] for branch in embeddings}) != 1 or any(branch.ndim != 4 for branch in embeddings):
        shapes = [branch.shape for branch in embeddings]
        raise ConfigError(f"embeddings have shapes {shapes}; each is (frames, channels, height, width), frames alike")
    branches = quantiser.numbers(embeddings)
    planes = [branch[:, index] for branch in branches for index in range(branch.shape[1])]
    predictors = [_best_predictor(plane, from_last_frame) for plane in planes]
    frames = len(branches[0])
    flat = np.concatenate([plane.reshape(frames, -1) for plane in planes], axis=1)
    coded = range_coder.encode(flat, [(plane.shape[1], plane.shape[2]) for plane in planes], predictors)
    described = b"".join(_BRANCH.pack(*branch.shape[1:]) for branch in branches)
    described += b"".join(
        _CHANNEL.pack(*each) for each in zip(quantiser.centres, quantiser.steps, predictors, strict=True)
    )
    head = _HEAD.pack(MAGIC, VERSION, len(branches), frames, len(coded), 0)
    return _sealed(head + described + coded)


def decode_embeddings(data: bytes, name: str = "these bytes") -> list[NDArray[np.float32]]:
    """Embeddings from the bytes of a file; `name` stands in errors."""
    shapes, frames, coded, channels = _parsed(data, name)
    planes = [(height, width) for count, height, width in shapes for _ in range(count)]
    flat = range_coder.decode(coded, frames, planes, [predictor for _, _, predictor in channels])
    ends = np.cumsum([count * height * width for count, height, width in shapes])[:-1]
    branches = [part.reshape(frames, *shape) for part, shape in zip(np.split(flat, ends, axis=1), shapes, strict=True)]
    return Quantiser(tuple(c for c, _, _ in channels), tuple(s for _, s, _ in channels)).values(branches)


def write_embeddings(
    path: str | Path, embeddings: Arrays, quantiser: Quantiser, *, from_last_frame: bool = False
) -> int:
    """Write an embedding file, all or nothing; returns its size in bytes."""
    data = encode_embeddings(embeddings, quantiser, from_last_frame=from_last_frame)
    write_atomic(path, data)
    return len(data)


def read_embeddings(path: str | Path) -> list[NDArray[np.float32]]:
    try:
        data = read_regular(path, RESULT_BYTES, follow_links=True)
    except OSError as error:
        raise ContentError(explain_os_error(error, path, "read")) from error
    return decode_embeddings(data, str(path))


def _best_predictor(plane: NDArray[np.int64], from_last_frame: bool) -> int:
    costs = {
        range_coder.NOTHING: range_coder.cost(plane),
        range_coder.NEIGHBOURS: range_coder.cost(range_coder.neighbour_residuals(plane)),
    }
    if from_last_frame:
        costs[range_coder.LAST_FRAME] = range_coder.cost(np.diff(plane, axis=0, prepend=0))
    return min(costs, key=costs.__getitem__)


def _sealed(data: bytes) -> bytes:
    """The data with its checksum, which is taken with zeros in its place."""
    blank = data[: _CRC_PLACE.start] + bytes(4) + data[_CRC_PLACE.stop :]
    return data[: _CRC_PLACE.start] + struct.pack("<I", zlib.crc32(blank)) + data[_CRC_PLACE.stop :]


def _parsed(data: bytes, name: str) -> tuple[list[Shape], int, bytes, list[tuple[float, float, int]]]:
    """Shapes, frames, coded bytes, and (centre, step, predictor) of every channel; an error says what is wrong."""
    if data[:4] != MAGIC[: len(data)] or not data:
        raise ContentError(f"{name} is no embedding file: it begins with {data[:4]!r}, not {MAGIC!r}")
    try:
        _, version, branches, frames, length, _ = _HEAD.unpack_from(data)
        if version != VERSION:
            raise ContentError(f"{name} has version {version}, this reelrl reads {VERSION}; write it anew")
        place = _HEAD.size
        shapes: list[Shape] = [_BRANCH.unpack_from(data, place + index * _BRANCH.size) for index in range(branches)]
        place += branches * _BRANCH.size
        count = sum(channels for channels, _, _ in shapes)
        channels = [_CHANNEL.unpack_from(data, place + index * _CHANNEL.size) for index in range(count)]
        place += count * _CHANNEL.size
    except struct.error as error:
        raise ContentError(f"{name} ends inside its header, after {len(data)} bytes; copy it again") from error
    if len(data) < place + length:
        raise ContentError(f"{name} is cut off: {len(data)} bytes of {place + length}; copy it again")
    if _sealed(data) != data or len(data) > place + length:
        raise ContentError(f"{name} is damaged: its checksum or length is wrong; copy it again")
    if frames * sum(channels * height * width for channels, height, width in shapes) > _MOST_NUMBERS:
        raise ContentError(f"{name} claims {frames} frames of {shapes}, more than {_MOST_NUMBERS} numbers; split it")
    return shapes, frames, data[place:], channels
