"""What a model sees and thinks, as pictures: input, reconstruction, error, change, feature maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from torch import Tensor

    from reelrl.see.result import LearnResult

    Picture = NDArray[np.uint8]

EMBEDDINGS = ("texture", "balance", "structure")
ERROR_GAIN = 4.0  # an error of a quarter is as bright as it gets
# From dark to bright through violet and orange; even steps in brightness.
HEAT = np.array([(8, 8, 24), (66, 20, 104), (148, 38, 103), (221, 81, 58), (252, 165, 10), (252, 255, 164)], float)
# From blue over dark to orange; zero in the middle.
BALANCED = np.array([(86, 180, 255), (30, 84, 140), (20, 22, 28), (150, 72, 20), (255, 170, 90)], float)
GAP = 4
GROUND = 24


def pictures_of(result: LearnResult) -> dict[str, Tensor]:
    """The tensors that panels are made of."""
    tensors = {"input": result.frame, "reconstruction": result.reconstruction, "change": result.change_mask}
    return tensors | dict(zip(EMBEDDINGS, result.embeddings, strict=True))


class FeatureVisualizer:
    """Turns arrays, named as in `pictures_of`, into uint8 RGB pictures."""

    def panels(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Picture]:
        """One picture for each of input, reconstruction, error, change, and the three embeddings."""
        frame, guess = arrays["input"][0], arrays["reconstruction"][0].astype(np.float32)
        error = np.abs(frame - guess).max(axis=0)
        changed = arrays["change"].reshape(error.shape)
        dimmed = frame.mean(axis=0) * 0.35
        # What changed keeps its brightness and turns orange; the rest steps back.
        tint = np.stack([np.maximum(dimmed, changed), np.maximum(dimmed, 0.6 * changed), dimmed * (1 - changed)])
        panels = {
            "input": _to_bytes(frame.transpose(1, 2, 0)),
            "reconstruction": _to_bytes(guess.transpose(1, 2, 0)),
            "error": colour(error * ERROR_GAIN, HEAT),
            "change": _to_bytes(tint.transpose(1, 2, 0)),
        }
        return panels | {name: self.feature_maps(arrays[name][0]) for name in EMBEDDINGS}

    def feature_maps(self, maps: NDArray[Any]) -> Picture:
        """Feature maps [channels, height, width] side by side, each from its own most negative to most positive."""
        values = maps.astype(np.float32)
        values = values - np.median(values, axis=(1, 2), keepdims=True)
        strongest = np.abs(values).max(axis=(1, 2), keepdims=True)
        scaled = 0.5 + 0.5 * values / np.maximum(strongest, 1e-6)
        return _side_by_side([colour(one, BALANCED) for one in scaled], gap=1)

    def sheet(self, arrays: Mapping[str, NDArray[Any]]) -> Picture:
        """All panels on one picture: the large ones above, the feature maps in threefold size below."""
        panels = self.panels(arrays)
        top = _side_by_side([panels[name] for name in ("input", "reconstruction", "error", "change")], gap=GAP)
        maps = [panels[name].repeat(3, axis=0).repeat(3, axis=1) for name in EMBEDDINGS]
        height = max(one.shape[0] for one in maps)
        below = _side_by_side([_pad(one, height, one.shape[1]) for one in maps], gap=4 * GAP)
        width = max(top.shape[1], below.shape[1])
        return np.concatenate([_pad(top, top.shape[0] + GAP, width), _pad(below, height, width)])


def colour(values: NDArray[Any], scale: NDArray[np.float64]) -> Picture:
    """Numbers in [0, 1] as colours between the scale's own."""
    place = np.clip(np.nan_to_num(values, nan=1.0), 0, 1)
    stops = np.linspace(0, 1, len(scale))
    return np.stack([np.interp(place, stops, channel) for channel in scale.T], axis=-1).round().astype(np.uint8)


def _side_by_side(pictures: list[Picture], gap: int) -> Picture:
    spacer = np.full((pictures[0].shape[0], gap, 3), GROUND, np.uint8)
    parts = [part for picture in pictures for part in (spacer, picture)][1:]
    return np.concatenate(parts, axis=1)


def _pad(picture: Picture, height: int, width: int) -> Picture:
    padded: Picture = np.full((height, width, 3), GROUND, np.uint8)
    padded[: picture.shape[0], : picture.shape[1]] = picture
    return padded


def _to_bytes(values: NDArray[Any]) -> Picture:
    picture: Picture = (np.clip(np.nan_to_num(values), 0, 1) * 255).round().astype(np.uint8)
    return picture
