"""One frame in, one QP out: a bitrate held within a buffer, nothing of a later frame known.

look at the frame ──► bits at each QP ─┬─► what is usual in this scene ──► QP that the bitrate allows in the long run
bits of the frame before ──► the model ┘                                         │
level of the bucket ─────────────────────────────────────────► QP at which this frame finds room ──► the coarser of both

A leaky bucket stands for the sender's buffer: each frame falls in as a whole, the link drains it. A frame that finds no
room is late. Frames coded afresh (the first, and after a cut) get a finer QP, because those after them refer to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reelrl.encode.live.bits import Curve
from reelrl.encode.live.qps import QPS
from reelrl.encode.live.structure import SceneWatch, is_reference, layer_of, shares
from reelrl.errors import ConfigError

_SPREAD_AFTER_TRIAL = 0.1  # octaves
_EARLY_MARGIN = 1.5  # times the margin later
_COARSER, _EARLY_COARSER = 2.0, 6.0  # steps that the base may rise for one that it may fall; and early in a scene
_CEILING = 0.6  # of the bucket: up to there pictures that stand still are refined; above is for cuts
_EMPTY = 3.0  # times faster may the base fall with an empty bucket
_REFINING, _MUCH_REFINING = 0.02, 0.4  # octaves above what lasts
_FINEST_QP = 12  # pictures have 46 to 50 dB there; what a still one takes beyond that, it takes from the next new one

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reelrl.encode.live.bits import FrameBits
    from reelrl.encode.live.frame_look import FrameLook


@dataclass(frozen=True)
class LiveTuning:
    """Constants of the controller, chosen on the development clips.

    offsets   QP steps of each layer against the base
    key_fill  of the room in the bucket: what the first frame may fill
    cut_fill  of the room in the bucket: what a frame after a cut may fill
    burst     of the room below `_CEILING`: what a frame within a scene may fill; a quarter of it in the next layer
    new_fill  of the room in the bucket: what a frame may fill that shows much at once that is new
    finer     QP steps below the base at which frames afresh are coded that others refer to
    level     of the bucket: where it is held
    returns   times the buffer's seconds in which it is led back there
    margin    spreads of the prediction by which a frame may take more than expected and still finds room
    step      most QP steps that the base falls from frame to frame within a scene
    pace      weight of a frame in what is usual in its layer
    """

    offsets: tuple[float, ...] = (-10.0, -3.5, 1.5)
    key_fill: float = 0.65
    cut_fill: float = 0.5
    burst: float = 0.5
    new_fill: float = 0.55
    finer: float = 16.0
    level: float = 0.25
    returns: float = 1.0
    margin: float = 1.2
    step: float = 2.0
    pace: float = 0.3

    @property
    def levels(self) -> int:
        """Hierarchical levels that the offsets are for."""
        return len(self.offsets) - 1


class LiveController:
    """The QP of frame after frame; `level_bits` is what the bucket holds before the frame falls in."""

    def __init__(
        self,
        *,
        fps: float,
        kbps: float,
        buffer_s: float,
        bits: FrameBits,
        tuning: LiveTuning | None = None,
    ) -> None:
        if not buffer_s > 0:
            raise ConfigError(f"buffer_s = {buffer_s}; a buffer holds some time, such as 0.5")
        self.tuning = tuning or LiveTuning()
        self.fps, self.buffer_s = fps, buffer_s
        self.level_bits = 0.0
        self.set_rate(kbps)
        self._model = bits
        self._offsets = np.array(self.tuning.offsets)
        self._number = self._layer = 0
        self._scene = SceneWatch(self.tuning.levels)
        self._shares = shares(self.tuning.levels)
        self._usual: list[NDArray[np.float64] | None] = [None] * len(
            self._offsets
        )  # bits of a frame of this scene, by base QP
        self._frames_of_scene = 0
        self._base = 40.0
        self._curve: Curve | None = None
        self.afresh = False
        """Whether the frame last looked at is coded without help of those before it."""

    @property
    def room_bits(self) -> float:
        """What a frame may take without being late."""
        return self.bucket_bits - self.level_bits

    def set_rate(self, kbps: float) -> None:
        """The link carries so much from now on; what is in the bucket stays there."""
        if not kbps > 0:
            raise ConfigError(f"kbps = {kbps}; a bitrate is above zero")
        self.kbps = kbps
        self.frame_bits = kbps * 1000 / self.fps
        self.bucket_bits = kbps * 1000 * self.buffer_s

    def decide(self, look: FrameLook) -> int:
        """The QP of the next frame, 1 to 63."""
        self.afresh = self._scene.afresh(look)
        self._layer = layer_of(self._number, self.tuning.levels)
        self._curve = self._model.predict(look, self._layer, afresh=self.afresh)
        return self._chosen()

    def decide_again(self, qp: int, bits: int) -> int:
        """The QP of the same frame, once a trial of it at `qp` has taken so many bits."""
        curve = self._asked_curve()
        error = np.log2(max(bits, 1)) - curve.log2_bits[qp - 1]
        spread = np.full(len(QPS), _SPREAD_AFTER_TRIAL)
        self._curve = Curve(curve.log2_bits + error, spread, curve.lasting + error, curve.finest)
        return self._chosen()

    @property
    def is_lost(self) -> bool:
        """The frame would be late at any QP, by what is expected of it."""
        return self._number > 0 and self._asked_curve().log2_bits[-1] > np.log2(max(self.room_bits, 1.0))

    def _chosen(self) -> int:
        curve = self._asked_curve()
        fits = _finest(curve.log2_bits + self._margin() * curve.spread, self.room_bits)
        qp = self._of_new_scene(curve) if self.afresh else self._in_scene(curve)
        chosen = round(float(min(max(qp, fits, _FINEST_QP), QPS[-1])))
        if self.afresh and is_reference(self._layer, self.tuning.levels):
            self._base = min(chosen + self.tuning.finer, float(QPS[-1]))
        return chosen

    def _margin(self) -> float:
        """Spreads; more where nothing of the scene has been coded but its first frame."""
        early = not self.afresh and self._frames_of_scene < 2**self.tuning.levels
        return self.tuning.margin * (_EARLY_MARGIN if early else 1.0)

    def _asked_curve(self) -> Curve:
        if self._curve is None:
            raise ConfigError("no frame was looked at yet; decide() comes first")
        return self._curve

    def learn(self, qp: int, bits: int) -> None:
        """What the frame took; then the link drains the bucket until the next one."""
        curve = self._asked_curve()
        self._model.learn(qp, bits)
        self.level_bits = max(self.level_bits + bits - self.frame_bits, 0.0)
        if self.afresh:
            self._usual, self._frames_of_scene = [None] * len(self._offsets), 0
        else:
            self._remember(self._by_base(curve.lasting + np.log2(max(bits, 1)) - curve.lasting[qp - 1]))
        self._scene.coded(self._layer)
        self._number += 1

    def skip(self) -> None:
        """The frame was dropped: the link drains the bucket all the same."""
        self.level_bits = max(self.level_bits - self.frame_bits, 0.0)

    def _of_new_scene(self, curve: Curve) -> float:
        tuning, expected = self.tuning, curve.log2_bits
        if self._number == 0:
            return _finest(expected, tuning.key_fill * self.room_bits)
        affordable = _finest(expected, tuning.cut_fill * self.room_bits)
        # What nobody refers to is shown once, and the next frame is coded afresh again.
        finer = tuning.finer if is_reference(self._layer, tuning.levels) else -self._offsets[self._layer]
        return max(affordable, self._base - finer)

    def _in_scene(self, curve: Curve) -> float:
        """The QP at which usual frames keep the bucket where it should be, or lead it back there."""
        tuning = self.tuning
        usual = self._with(self._by_base(curve.lasting))
        back = (tuning.level * self.bucket_bits - self.level_bits) / (tuning.returns * self.buffer_s * self.fps)
        budget = min(max(self.frame_bits + back, 0.3 * self.frame_bits), 2.0 * self.frame_bits)
        wanted = _finest(np.log2(usual), budget)
        # A scene that has just begun is known by its looks alone: it may turn out to need far coarser QPs.
        coarser = _COARSER if self._frames_of_scene >= 2**tuning.levels else _EARLY_COARSER
        # Where the bucket runs empty, bits are lost: a picture that stands still is refined by far finer QPs alone.
        empty = max(1 - self.level_bits / (tuning.level * self.bucket_bits), 0.0)
        finer = tuning.step * (1 + _EMPTY * empty)
        wanted = min(max(wanted, self._base - finer), self._base + coarser * tuning.step)
        self._base = float(min(max(wanted, QPS[0]), QPS[-1]))
        return max(float(self._base + self._offsets[self._layer]), self._affordable(curve), curve.finest)

    def _affordable(self, curve: Curve) -> float:
        """The finest QP within a scene that what is in the bucket leaves room for."""
        tuning = self.tuning
        # Making a picture finer is paid once, out of the room there is.
        room = max(_CEILING * self.bucket_bits - self.level_bits, 0.0)
        within = _finest(curve.log2_bits, self.frame_bits + tuning.burst / 4**self._layer * room)
        if not is_reference(self._layer, tuning.levels):
            # What nobody refers to is shown once: it makes nothing finer that stands still.
            return max(within, _unrefined(curve, _REFINING))
        if not self._scene.changed:
            return within
        # What is new is coded well at once: where the source stands still, encoders leave errors as they are.
        new = _finest(curve.lasting, self.frame_bits + tuning.new_fill * self.room_bits)
        return min(within, max(new, _unrefined(curve, _MUCH_REFINING)))

    def _by_base(self, log2_bits: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bits by base QP instead of the frame's own."""
        return np.asarray(2 ** np.interp(QPS + self._offsets[self._layer], QPS, log2_bits))

    def _with(self, bits: NDArray[np.float64]) -> NDArray[np.float64]:
        """What an average frame of the scene takes, once this one is counted."""
        before = self._usual[self._layer]
        bits = bits if before is None else before + self.tuning.pace * (bits - before)
        known, share_known = self._shares[self._layer] * bits, self._shares[self._layer]
        for layer, (usual, share) in enumerate(zip(self._usual, self._shares, strict=True)):
            if layer != self._layer and usual is not None:
                known, share_known = known + share * usual, share_known + share
        return np.asarray(known / share_known)

    def _remember(self, bits: NDArray[np.float64]) -> None:
        self._frames_of_scene += 1
        before = self._usual[self._layer]
        self._usual[self._layer] = bits if before is None else before + self.tuning.pace * (bits - before)


def _unrefined(curve: Curve, octaves: float) -> float:
    """The finest QP at which making the picture finer adds no more than so much."""
    refining = np.flatnonzero(curve.log2_bits > curve.lasting + octaves)
    return float(QPS[min(refining[-1] + 1, len(QPS) - 1)]) if len(refining) else float(QPS[0])


def _finest(log2_bits: NDArray[np.float64], bits: float) -> float:
    """The finest QP, with fractions, that takes no more than `bits`; one above the last where none does."""
    wanted = np.log2(max(bits, 1.0))
    if log2_bits[-1] > wanted:
        return float(QPS[-1] + 1)
    return float(np.interp(-wanted, -log2_bits, QPS))  # bits fall with the QP
