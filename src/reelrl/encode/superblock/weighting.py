"""Where quality matters: weight maps of a clip's pixels, by name, as a picture, or from a function of the user's.

    weigh_clip(clip, "centre")                  an ellipse in the middle
    weigh_clip(clip, mask)                      one picture [height, width] for all frames
    weigh_clip(clip, lambda frame, number: ...) a picture [height, width] for each frame

Weights are kept in 255 steps of the largest one: weighted errors are then exact sums, and a map takes a byte a pixel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
from numpy.typing import NDArray

from reelrl.content.quality import PSNR_CAP_DB, psnr_from_sse
from reelrl.encode.superblock.block_error import block_means, weighted_sse
from reelrl.errors import ConfigError
from reelrl.names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reelrl.content.clip import Clip
    from reelrl.content.frame import Frame, Plane

    Weighing = str | NDArray[Any] | Callable[[Frame, int], NDArray[Any]]

LEAST = 0.1
"""Weight of what matters least in the named maps; what matters most has 1."""

_AXES = 0.35  # half axes of the ellipse, as shares of width and height
_NOISE = 7  # pixels over which noise is averaged away before frames are compared
_STILL_LEVELS, _FLAT_LEVELS = 0.5, 8.0  # mean change and mean gradient of a frame below which nothing stands out
_SPREAD = 15  # pixels over which motion and detail are averaged
_SALIENCY = 64  # pixels of the side of the picture whose spectrum is looked at


@dataclass(frozen=True)
class WeightMaps:
    """Weights 0 to 255 of every pixel of a clip.

    maps    one picture for each frame, or a single one for all
    blocks  mean weight of each superblock, 0 to 1: float32 [frames, superblocks]
    """

    maps: tuple[NDArray[np.uint8], ...]
    blocks: NDArray[np.float32]

    def frame(self, number: int) -> Plane:
        """The picture of weights of a frame."""
        return self.maps[number % len(self.maps)]


def weigh_clip(clip: Clip, weighing: Weighing) -> WeightMaps:
    """Weights of all frames of a clip."""
    if isinstance(weighing, str):
        if weighing not in WEIGHINGS:
            raise ConfigError(f"unknown weights {weighing!r}{did_you_mean(weighing, WEIGHINGS)}")
        maps = tuple(WEIGHINGS[weighing](clip))
    elif callable(weighing):
        maps = tuple(as_weights(weighing(frame, number), clip) for number, frame in enumerate(clip))
    else:
        maps = (as_weights(weighing, clip),)
    blocks = np.stack([block_means(weights) for weights in maps]) / np.float32(255)
    return WeightMaps(maps, np.ascontiguousarray(np.broadcast_to(blocks, (clip.frame_count, blocks.shape[1]))))


def as_weights(picture: Any, clip: Clip) -> Plane:
    """A picture of weights in 255 steps; one that is zero all over counts every pixel the same."""
    values = np.asarray(picture, np.float64)
    if values.shape != (clip.height, clip.width):
        raise ConfigError(
            f"weights have shape {values.shape}, the clip's frames are {(clip.height, clip.width)}; "
            "give a weight per luma pixel"
        )
    if not np.isfinite(values).all() or values.min() < 0:
        raise ConfigError(f"weights go from {values.min()} to {values.max()}; they are finite and not negative")
    largest = values.max()
    return np.rint(values * (255 / largest)).astype(np.uint8) if largest else np.full(values.shape, 255, np.uint8)


def weighted_psnr(source: Frame, recon: Frame, weights: Plane, cap_db: float = PSNR_CAP_DB) -> float:
    """Luma PSNR in dB where every pixel's error counts by its weight (uint8 [height, width], not all zero)."""
    if weights.shape != source.y.shape or recon.y.shape != source.y.shape:
        raise ConfigError(f"weights are {weights.shape}, the frames {source.y.shape} and {recon.y.shape}; use one size")
    error, weight = weighted_sse(source.y, recon.y, weights)
    return psnr_from_sse(int(error), int(weight), cap_db)


def _centre(clip: Clip) -> Iterator[Plane]:
    """An ellipse in the middle counts fully; its edge is soft."""
    y, x = np.mgrid[-1 : 1 : clip.height * 1j, -1 : 1 : clip.width * 1j]
    distance = np.hypot(x, y) / (2 * _AXES)
    yield _between(np.clip(1.5 - distance, 0, 1) * 2)


def _moving(clip: Clip) -> Iterator[Plane]:
    """What changes more than the rest of its frame; the first frame is weighed by what will change next."""
    previous: Plane | None = None
    for number, frame in enumerate(clip):
        calm = cv2.blur(frame.y, (_NOISE, _NOISE))
        if previous is not None:
            change = _standing_out(_averaged(cv2.absdiff(calm, previous)), _STILL_LEVELS)
            if number == 1:
                yield change
            yield change
        previous = calm
    if clip.frame_count == 1:
        yield np.full((clip.height, clip.width), 255, np.uint8)


def _detail(clip: Clip) -> Iterator[Plane]:
    """More and sharper edges than in the rest of the frame, as in text."""
    for frame in clip:
        across, down = (cv2.Sobel(frame.y, cv2.CV_32F, i, 1 - i, ksize=3) for i in (1, 0))
        yield _standing_out(_averaged(np.abs(across) + np.abs(down)), _FLAT_LEVELS)


def _standing_out(levels: NDArray[np.float32], least: float) -> Plane:
    """Full weight from 1.5 times the frame's mean on, the least below half of it; a mean under `least` is noise."""
    return _between(levels / max(float(levels.mean()), least) - 0.5)


def _averaged(values: NDArray[Any]) -> NDArray[np.float32]:
    averaged: NDArray[np.float32] = cv2.blur(values.astype(np.float32), (_SPREAD, _SPREAD))
    return averaged


def _between(share: NDArray[Any]) -> Plane:
    """Weights from shares of importance; 0 and less means `LEAST`, 1 and more is full."""
    weights: Plane = np.rint(255 * (LEAST + (1 - LEAST) * np.clip(share, 0, 1))).astype(np.uint8)
    return weights


def _salient(clip: Clip) -> Iterator[Plane]:
    """What the spectrum of the frame does not let expect: its spectral residual (Hou and Zhang, 2007)."""
    for frame in clip:
        small = cv2.resize(frame.y, (_SALIENCY, _SALIENCY), interpolation=cv2.INTER_AREA).astype(np.float32)
        spectrum = np.fft.fft2(small)
        amplitude = np.log(np.abs(spectrum) + 1e-6)
        residual = amplitude - cv2.blur(amplitude, (3, 3), borderType=cv2.BORDER_REFLECT)
        unexpected = np.abs(np.fft.ifft2(np.exp(residual + 1j * np.angle(spectrum)))) ** 2
        calm = cv2.GaussianBlur(unexpected.astype(np.float32), (0, 0), 2.5)
        yield _standing_out(cv2.resize(calm, (clip.width, clip.height)), 1e-9)


def _text(clip: Clip) -> Iterator[Plane]:
    """Lines of text, as a detector finds them; in a clip without any, every pixel counts the same."""
    from reelrl.encode.superblock.text_regions import TextDetector

    detector = TextDetector()
    for frame in clip:
        yield _between(cv2.blur(detector.share(frame), (_NOISE, _NOISE)))


WEIGHINGS: dict[str, Callable[[Clip], Iterator[Plane]]] = {
    "moving": _moving,
    "centre": _centre,
    "detail": _detail,
    "saliency": _salient,
    "text": _text,
}
