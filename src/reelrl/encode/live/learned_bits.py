"""A small net that predicts a frame's bits at every QP at once, and how sure it is.

looks, layer, what frames before took ──► inputs [63 QPs, 26] ──► 48 ──► 48 ──► what to add to the rule, and the spread

It adds to the rule's densities, which hold for any size of picture. Loading a file of it runs no code.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reelrl.encode.live.bits import Curve, Densities
from reelrl.encode.live.qps import QPS
from reelrl.encode.live.structure import LAYERS, is_reference
from reelrl.encode.live.weights import SHIPPED
from reelrl.errors import CheckpointError
from reelrl.runs.policy_file import check_finite
from reelrl.storage import tensor_file
from reelrl.storage.files import write_atomic
from reelrl.storage.regular_files import check_regular

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from reelrl.encode.live.frame_look import FrameLook

INPUTS = 26

_FAR = 3.0  # octaves: what a frame was off by counts no more than this
_LEAST_SPREAD, _MOST_SPREAD = 0.03, 2.0


@dataclass
class _Frame:
    """What is remembered of a coded frame."""

    qp: float = 40.0
    off: float = 0.0  # octaves that the densities were off by
    inter: float = 0.0  # log2 of its inter energy


class Inputs:
    """What the net is given, frame by frame; training and coding share it."""

    def __init__(self, pixels: int) -> None:
        self._densities = Densities(pixels)
        self._log2_pixels = float(np.log2(pixels))
        self._last, self._reference, self._afresh = _Frame(), _Frame(), _Frame()
        self._by_layer = [_Frame() for _ in range(LAYERS)]
        self._usual_off, self._frames, self._in_scene = 0.0, 0, 0
        self._since_base = self._since_reference = 0.0  # inter energy of the frames since
        self._asked: tuple[NDArray[np.float64], int, bool, float] | None = None

    def of(
        self, look: FrameLook, layer: int, *, afresh: bool
    ) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.float64]]:
        """(inputs [63, 26], log2 of bits that the densities alone say, of these what lasts)."""
        intra, base, lasting = self._densities.of(look, afresh=afresh)
        energy = np.log2(0.05 + np.array(look.energy))
        same = self._by_layer[layer]
        rows = np.empty((len(QPS), INPUTS), np.float32)
        rows[:, 0] = (base - self._log2_pixels + 4) / 4
        rows[:, 1] = (intra - self._log2_pixels + 3) / 4
        rows[:, 2] = QPS / 32 - 1
        rows[:, 3] = (QPS - self._last.qp) / 16
        rows[:, 4] = (QPS - self._reference.qp) / 16
        rows[:, 5] = (QPS - same.qp) / 16
        rows[:, 6:] = (
            afresh,
            layer == 0,
            layer == 1,
            look.cut,
            look.still,
            energy[0] / 3,
            energy[1] / 3,
            self._last.off,
            same.off,
            self._reference.off,
            self._afresh.off,
            self._usual_off,
            min(self._frames, 8) / 8,
            min(self._in_scene, 8) / 8,
            float(energy[1] - self._last.inter) / 2 if self._frames else 0.0,
            (self._log2_pixels - 16) / 2,
            np.log2(0.05 + self._since_base + look.energy[1]) / 3,
            np.log2(0.05 + self._since_reference + look.energy[1]) / 3,
            same.off - self._last.off,
            self._by_layer[0].off,
        )
        self._asked = (base, layer, afresh, look.energy[1])
        return rows, base, lasting

    def coded(self, qp: int, bits: int) -> None:
        """What the frame took."""
        if self._asked is None:
            return
        base, layer, afresh, energy = self._asked
        off = float(np.clip(np.log2(max(bits, 1)) - base[qp - 1], -_FAR, _FAR))
        frame = _Frame(float(qp), off, float(np.log2(0.05 + energy)))
        self._since_base = 0.0 if layer == 0 else self._since_base + energy
        self._since_reference = 0.0 if is_reference(layer) else self._since_reference + energy
        if afresh:
            self._afresh, self._in_scene = frame, 0
        else:
            self._usual_off += (off - self._usual_off) * (0.15 if self._frames > 1 else 1.0)
            self._in_scene += 1
        self._densities.coded(qp, layer, afresh=afresh)
        self._last = self._by_layer[layer] = frame
        if is_reference(layer):
            self._reference = frame
        self._frames += 1


@dataclass(frozen=True)
class BitsNet:
    """Two hidden layers; `weights` are w1 [26, n], b1, w2 [n, n], b2, w3 [n, 2], b3."""

    weights: tuple[NDArray[np.float32], ...]

    def __call__(self, inputs: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(octaves to add, spread in octaves) for each row."""
        w1, b1, w2, b2, w3, b3 = self.weights
        hidden = np.maximum(np.maximum(inputs @ w1 + b1, 0) @ w2 + b2, 0) @ w3 + b3
        spread = np.exp(np.clip(hidden[:, 1], np.log(_LEAST_SPREAD), np.log(_MOST_SPREAD)))
        return hidden[:, 0].astype(np.float64), spread.astype(np.float64)


class LearnedBits:
    """A `FrameBits` by the net."""

    def __init__(self, pixels: int, net: BitsNet) -> None:
        self._inputs, self._net = Inputs(pixels), net

    def predict(self, look: FrameLook, layer: int, *, afresh: bool) -> Curve:
        rows, base, lasting = self._inputs.of(look, layer, afresh=afresh)
        added, spread = self._net(rows)
        # Whatever the net says, a coarser QP takes no more.
        return Curve(np.minimum.accumulate(base + added), spread, np.minimum.accumulate(lasting + added))

    def learn(self, qp: int, bits: int) -> None:
        self._inputs.coded(qp, bits)


_NAMES = ("w1", "b1", "w2", "b2", "w3", "b3")


def save_net(path: Path, net: BitsNet, facts: Mapping[str, Any]) -> None:
    """Write the net, and `facts`: what it was fitted to."""
    tensors = dict(zip(_NAMES, net.weights, strict=True))
    write_atomic(path, tensor_file.to_bytes(tensors, {"facts": json.dumps(dict(facts))}))


@cache
def load_net(path: Path = SHIPPED) -> BitsNet:
    """The net of a file of `reel fit live`."""
    from safetensors import SafetensorError, safe_open

    try:
        check_regular(path, follow_links=True)
        with safe_open(path, "np") as file:
            tensors = {name: file.get_tensor(name).astype(np.float32) for name in _NAMES}
        check_finite(tensors)
        shapes = [tensors[name].shape for name in _NAMES]
        width = shapes[1][0]
        if shapes != [(INPUTS, width), (width,), (width, width), (width,), (width, 2), (2,)]:
            raise ValueError(f"its weights have shapes {shapes}")
    except (OSError, SafetensorError, KeyError, ValueError, IndexError) as error:
        raise CheckpointError(f"{path} is no predictor of live bits: {error}; make one with reel fit live") from error
    return BitsNet(tuple(tensors[name] for name in _NAMES))
