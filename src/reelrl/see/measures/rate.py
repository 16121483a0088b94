"""Quality against bytes: embeddings as they are really written, beside image codecs on the same frames.

    embedding       quantise (steps chosen on the training stream) -> range coder -> file -> decode -> picture
    JPEG, WebP, AVIF    224x224 pictures, one file each, as Pillow writes them
    lossless WebP, PNG  the same pictures, and the game's own smaller ones

A file's bytes are all counted, its header too. The model's weights are what a receiver must have before the first
frame; they are given beside the curves and not counted.
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from reelrl.see.embeddings.file import Quantiser, decode_embeddings, encode_embeddings
from reelrl.see.measures.baselines import through_small
from reelrl.see.measures.trained import as_inputs, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from reelrl.see.learner import StreamingAutoEncoder
    from reelrl.see.measures.trained import Judge, TrainedModel

    Embedded = list[NDArray[np.float32]]

ALONE, TOGETHER, DIFFERENCES = "embedding, a file each", "embedding, one file", "embedding, one file of differences"
NOISE = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6)
"""Mean squared error that quantising may add to the pictures."""

_QUALITIES = {"JPEG": (5, 10, 20, 35, 50, 75, 90), "WebP": (0, 10, 30, 50, 75, 90), "AVIF": (10, 25, 40, 55, 70, 85)}
_OPTIONS: dict[str, dict[str, Any]] = {
    "JPEG": {"optimize": True, "subsampling": "4:2:0"},
    "WebP": {"method": 6},
    "AVIF": {"subsampling": "4:4:4", "speed": 6, "max_threads": 1},
}


@dataclass(frozen=True)
class BytesPoint:
    """Who, at which setting, how many bytes a frame, how good."""

    codec: str
    setting: str
    bytes_per_frame: float
    figures: dict[str, float | None]

    def as_record(self) -> dict[str, Any]:
        return {
            "codec": self.codec,
            "setting": self.setting,
            "bytes_per_frame": self.bytes_per_frame,
            **self.figures,
        }


def channel_worth(model: StreamingAutoEncoder, embeddings: Embedded, seed: int = 0) -> list[float]:
    """Squared error in the pictures for a unit of noise variance on each channel, measured with little noise."""
    rng = np.random.default_rng(seed)
    clean = decode(model, embeddings)
    worth = []
    for number, branch in enumerate(embeddings):
        for channel in range(branch.shape[1]):
            strength = 0.05 * float(branch[:, channel].std()) + 1e-6
            noisy = [each.copy() for each in embeddings]
            noisy[number][:, channel] += rng.normal(0, strength, branch[:, channel].shape).astype(np.float32)
            worth.append(float((decode(model, noisy) - clean).square().mean()) / strength**2)
    return worth


def embedding_points(trained: TrainedModel, training: Tensor, judge: Judge) -> list[BytesPoint]:
    """Points at several step sizes, each in three ways of writing; steps are chosen on training frames only."""
    known, unseen = encode(trained.model, training), encode(trained.model, judge.frames)
    worth = channel_worth(trained.model, known)
    numbers = sum(branch[0].size for branch in known)
    points = []
    for noise in NOISE:
        # Uniform noise of a step has a twelfth of its square as variance; `fit` gives every number an equal share.
        quantiser = Quantiser.fit(known, worth, scale=math.sqrt(12 * noise / numbers))
        files = {
            TOGETHER: encode_embeddings(unseen, quantiser),
            DIFFERENCES: encode_embeddings(unseen, quantiser, from_last_frame=True),
        }
        figures = judge(decode(trained.model, decode_embeddings(files[TOGETHER])))
        sizes = {name: len(data) / len(judge.frames) for name, data in files.items()}
        each = [[branch[place : place + 1] for branch in unseen] for place in range(len(judge.frames))]
        sizes[ALONE] = float(np.mean([len(encode_embeddings(one, quantiser)) for one in each]))
        points += [BytesPoint(name, f"noise {noise:g}", size, figures) for name, size in sizes.items()]
    points.append(BytesPoint("embedding, float32", "as it is", 4.0 * numbers, judge(decode(trained.model, unseen))))
    return points


def codec_points(judge: Judge) -> list[BytesPoint]:
    """Image codecs on the same frames; the lossless ones also on the source's own pictures."""
    pictures = [_to_picture(frame) for frame in judge.frames]
    points = []
    for name, qualities in _QUALITIES.items():
        for quality in qualities:
            data = [_coded(picture, name, quality=quality, **_OPTIONS[name]) for picture in pictures]
            points.append(BytesPoint(name, f"quality {quality}", _mean_size(data), judge(_decoded(data))))
    perfect = judge(_decoded([_coded(picture, "PNG") for picture in pictures]))
    lossless: list[tuple[str, Callable[[NDArray[np.uint8]], bytes]]] = [
        ("lossless WebP", lambda picture: _coded(picture, "WebP", lossless=True, quality=100, method=6)),
        ("PNG", lambda picture: _coded(picture, "PNG", optimize=True)),
    ]
    for name, code in lossless:
        points.append(BytesPoint(name, "224x224", _mean_size([code(picture) for picture in pictures]), perfect))
        points.append(BytesPoint(name, "own size", _mean_size([code(picture) for picture in judge.native]), perfect))
    points.append(BytesPoint("27x27 resize", "raw bytes", 27.0 * 27 * 3, judge(through_small(judge.frames))))
    return points


def best_within(points: Sequence[BytesPoint], codec: str, budget_bytes: float) -> BytesPoint | None:
    """The best point of a codec that takes no more bytes."""
    affordable = [point for point in points if point.codec == codec and point.bytes_per_frame <= budget_bytes]
    return max(affordable, key=lambda point: point.figures["psnr_db"] or 0.0, default=None)


def _to_picture(frame: Tensor) -> NDArray[np.uint8]:
    picture: NDArray[np.uint8] = (frame * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
    return picture


def _coded(picture: NDArray[np.uint8], codec: str, **options: Any) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(picture).save(out, codec, **options)
    return out.getvalue()


def _decoded(files: Sequence[bytes]) -> Tensor:
    from PIL import Image

    return as_inputs([np.array(Image.open(io.BytesIO(data)).convert("RGB")) for data in files])


def _mean_size(files: Sequence[bytes]) -> float:
    return float(np.mean([len(data) for data in files]))
