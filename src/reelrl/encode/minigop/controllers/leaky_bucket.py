"""Holding a bitrate in low delay, one pass, nothing known of later mini-GOPs.

pictures of the mini-GOP ──► energies ─┐
bits of those before ──► corrections ──┴─► QP at which the coming seconds spend what the bitrate and the debts allow,
                                           and this mini-GOP no more than the bucket has room for

The pictures are there to be looked at, so a cut is met by the mini-GOP that holds it, not by the one after.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reelrl.encode.minigop.controllers.bits import BitsModel, Pictures
from reelrl.encode.minigop.protocols import HIGHEST_QP, LOWEST_QP

if TYPE_CHECKING:
    from collections.abc import Callable

    from reelrl.encode.minigop.protocols import MiniGopEpisode, MiniGopFeedback, MiniGopRequest, Situation

_PACE_UP, _PACE_DOWN = 0.25, 0.1  # weight of a mini-GOP in what is usual; pauses of a busy scene are no new scene
_FULL, _RESERVE = 0.7, 0.1  # of the bucket: what a mini-GOP may fill it to, and what it may always take
_SAVED = 0.6  # of the bucket: unspent bits that are kept for later; more would leave no room for a surprise
_LEAST = 0.4  # of the bitrate: what debts leave


@dataclass
class _Scene:
    """energy  usual for a frame of the scene
    intra      of its pictures
    """

    energy: float = 0.0
    intra: float = 0.0


class LeakyBucket:
    """Goal "cbr": the bitrate within some seconds and no more at once than the bucket holds; "vbr": over the clip.

    payback_s  seconds that debts are paid back in ("cbr")
    rise       QP steps between mini-GOPs of a scene: a picture much coarser than its reference wastes what that cost
    """

    privileged = False

    def __init__(self, payback_s: float = 3.0, rise: float = 6.0) -> None:
        self.payback_s, self.rise = payback_s, rise

    def reset(self, seed: int, episode: MiniGopEpisode) -> None:
        del seed  # nothing here is left to chance
        self._constant = episode.goal == "cbr"
        self._share = episode.kbps * 1000 / float(episode.fps)  # bits of a frame
        self._bucket = episode.buffer_s * episode.kbps * 1000
        self._payback = self.payback_s * float(episode.fps)
        self._model = BitsModel(episode.width * episode.height)
        self._asked: list[Pictures] = []
        self._surplus = self._level = 0.0
        self._scene = _Scene()
        self._wanted = self._qp = 0.0  # by the bitrate; and as it was sent, where the bucket had a say
        self._reported, self._gop, self._after_cut = 0, -1, False

    def act(self, situation: Situation) -> float:
        request = situation.request
        for feedback in situation.history[self._reported :]:
            self._learn(feedback)
        self._reported = len(situation.history)
        cut = request.features.get("cut_frames", 0.0) > 0
        pictures = self._look(request, cut=cut)
        self._asked.append(pictures)
        if not situation.history:
            self._wanted = self._qp = request.base_qp
            return 0.0
        wanted = self._by_bitrate(request, pictures)
        if not (cut or self._after_cut):
            wanted = min(wanted, self._wanted + self.rise)
        self._after_cut = cut
        self._wanted = min(max(wanted, LOWEST_QP), HIGHEST_QP)
        self._qp = max(self._wanted, self._by_bucket(request.frames, pictures)) if self._constant else self._wanted
        self._qp = min(self._qp, HIGHEST_QP)
        return self._qp - request.base_qp

    def _learn(self, feedback: MiniGopFeedback) -> None:
        self._model.learn(self._asked[feedback.mg], feedback.qp, feedback.bits, first=feedback.mg == 0)
        surplus = feedback.bits - feedback.frames * self._share
        self._surplus += surplus
        self._level = max(self._level + surplus, 0.0)
        if self._constant:  # a bucket keeps no more than it holds
            self._surplus = max(self._surplus, -_SAVED * self._bucket)

    def _look(self, request: MiniGopRequest, *, cut: bool) -> Pictures:
        """What the mini-GOP holds; and what is usual in the scene follows it."""
        features, scene, frames = request.features, self._scene, request.frames
        starts, self._gop = request.gop != self._gop, request.gop
        energy = features.get("inter", 1.0)
        if cut and self._asked:
            after = min(max(int(features.get("cut_frames", 1)), 1), frames)  # foreign encoders may not tell
            energy = scene.energy
            if after > 1:  # else the new scene has not been seen to move
                scene.energy = features.get("cut_inter", energy)
            scene.intra = features.get("cut_intra", features.get("intra", 4.0))
            self._model.new_scene()
            energy += (after - 1) / (frames - 1) * (scene.energy - energy) if frames > 1 else 0.0
            return Pictures(frames - 1, energy, scene.intra, afresh=True)
        if not self._asked or self._after_cut:
            scene.energy = energy
        else:
            scene.energy += (_PACE_UP if energy > scene.energy else _PACE_DOWN) * (energy - scene.energy)
        scene.intra = features.get("intra", 4.0)
        return Pictures(frames - starts, energy, scene.intra, afresh=starts, refined_from=self._qp)

    def _by_bitrate(self, request: MiniGopRequest, pictures: Pictures) -> float:
        """QP at which this mini-GOP and usual ones after it spend the bitrate less what is owed."""
        ahead = min(self._payback, request.frames_left) if self._constant else request.frames_left
        ahead = max(ahead, request.frames)
        bits = max(self._share * ahead - self._surplus, _LEAST * self._share * ahead)
        later, energy = ahead - request.frames, self._scene.energy
        return _finest(lambda qp: self._model.bits(pictures, qp) + self._model.moving(later, energy, qp), bits)

    def _by_bucket(self, frames: int, pictures: Pictures) -> float:
        """QP at which this mini-GOP finds room in the bucket."""
        room = max(_FULL * self._bucket - self._level, _RESERVE * self._bucket)
        return _finest(lambda qp: self._model.bits(pictures, qp), self._share * frames + room)


def _finest(bits_at: Callable[[float], float], bits: float) -> float:
    """The finest QP that takes no more than `bits`; bits fall with the QP."""
    fine, coarse = LOWEST_QP - 1.0, HIGHEST_QP + 20.0  # beyond, so that later limits see how far off it is
    for _ in range(12):
        middle = (fine + coarse) / 2
        fine, coarse = (middle, coarse) if bits_at(middle) > bits else (fine, middle)
    return coarse
