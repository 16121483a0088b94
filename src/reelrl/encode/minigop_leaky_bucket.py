"""Holding a bitrate in low delay, one pass, nothing known of later mini-GOPs.

pictures of the mini-GOP ──► energy ─┐
bits of those before ──► calibration ─┴──► QP at which the coming seconds spend what the bitrate and the debts allow

From one mini-GOP to the next bits change about as the energy does that prediction leaves in the pictures, and those are
there to be looked at. So a cut is met by the mini-GOP that holds it, not by the one after.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from reelrl.encode.minigop_pyramid import HIGHEST_QP

if TYPE_CHECKING:
    from reelrl.encode.minigop import MiniGopEpisode, MiniGopFeedback, MiniGopRequest, Situation

OCTAVES_PER_QP = 0.115
"""What a QP step takes from the bits in low delay."""
FINEST_QP = 14
"""Quiet scenes stay at this, and below their bitrate: finer, there is nothing to be seen, and the next cut is dear."""

_STILL = 0.3  # energy, in levels, of pictures that do not change: something is always coded
_KEY = 9.0  # a key frame's energy, in intra energies
_CUT = 0.7  # of `scene_cut`
_NEWS = 0.5  # weight of the last mini-GOP in the calibration
_PACE = 0.25  # and in what is usual in this scene
_FULL, _RESERVE = 0.7, 0.1  # of the bucket: what a mini-GOP may fill it to, and what it may always take
_SAVED = 1.0  # of the bucket: unspent bits that are kept for later
_LEAST = 0.4  # of the bitrate: what debts leave


class LeakyBucket:
    """Goal "cbr": the bitrate within some seconds and no more at once than the bucket holds; "vbr": over the clip.

    payback_s    seconds that debts are paid back in ("cbr")
    fall, rise   QP steps between mini-GOPs of a scene: a picture much coarser than its reference wastes what that cost
    """

    privileged = False

    def __init__(self, payback_s: float = 3.0, fall: float = 2.0, rise: float = 3.0) -> None:
        self.payback_s, self.fall, self.rise = payback_s, fall, rise

    def reset(self, seed: int, episode: MiniGopEpisode) -> None:
        del seed  # nothing here is left to chance
        self._constant = episode.goal == "cbr"
        self._share = episode.kbps * 1000 / float(episode.fps)  # bits of a frame
        self._bucket = episode.buffer_s * episode.kbps * 1000
        self._payback = self.payback_s * float(episode.fps)
        self._energies: list[float] = []
        self._calibration = 0.0  # octaves: bits of a frame with energy 1 at QP 0
        self._surplus = self._level = 0.0
        self._usual = 0.0  # energy of the scene's frames
        self._qp = 0.0
        self._seen, self._gop, self._after_cut = 0, -1, False

    def act(self, situation: Situation) -> float:
        request = situation.request
        for told in situation.history[self._seen :]:
            self._learn(told)
        cut = request.features.get("scene_cut", 0.0) > _CUT
        energy = self._look(request, cut=cut)
        if not situation.history:
            self._qp = request.base_qp
            return 0.0
        wanted = self._wanted(request, energy)
        if not (cut or self._after_cut):
            wanted = min(wanted, self._qp + self.rise)
        wanted = max(wanted, self._qp - self.fall)
        self._after_cut = cut
        self._qp = min(max(wanted, FINEST_QP), HIGHEST_QP)
        qp = max(self._qp, self._fitting(request.frames, energy)) if self._constant else self._qp
        return min(qp, HIGHEST_QP) - request.base_qp

    def _learn(self, told: MiniGopFeedback) -> None:
        energy = math.log2(self._energies[told.mg])
        found = math.log2(max(told.bits, 1) / told.frames) + OCTAVES_PER_QP * told.qp - energy
        self._seen += 1
        self._calibration += max(_NEWS, 1 / self._seen) * (found - self._calibration)
        surplus = told.bits - told.frames * self._share
        self._surplus += surplus
        self._level = max(self._level + surplus, 0.0)
        if self._constant:  # a bucket keeps no more than it holds
            self._surplus = max(self._surplus, -_SAVED * self._bucket)

    def _look(self, request: MiniGopRequest, *, cut: bool) -> float:
        """Energy of the mini-GOP, per frame; and what is usual follows it."""
        features = request.features
        inter = features.get("inter", 0.0) + _STILL
        last = features.get("inter_last", 0.0) + _STILL
        starts, self._gop = request.gop != self._gop, request.gop
        energy = inter + (_KEY * features.get("intra", 0.0) / request.frames if starts else 0.0)
        self._energies.append(energy)
        if len(self._energies) == 1 or (self._after_cut and not cut):
            self._usual = inter
        elif not cut:
            self._usual += _PACE * (inter - self._usual)
        elif last < inter:  # else the cut is among the last frames, and the new scene not seen yet
            self._usual = last
        return energy

    def _wanted(self, request: MiniGopRequest, energy: float) -> float:
        """QP at which this mini-GOP and usual ones after it spend the bitrate less what is owed."""
        ahead = min(self._payback, request.frames_left) if self._constant else request.frames_left
        ahead = max(ahead, request.frames)
        bits = max(self._share * ahead - self._surplus, _LEAST * self._share * ahead)
        return self._qp_for(energy * request.frames + self._usual * (ahead - request.frames), bits)

    def _fitting(self, frames: int, energy: float) -> float:
        """QP at which this mini-GOP finds room in the bucket."""
        room = max(_FULL * self._bucket - self._level, _RESERVE * self._bucket)
        return self._qp_for(energy * frames, self._share * frames + room)

    def _qp_for(self, energy: float, bits: float) -> float:
        return (self._calibration + math.log2(energy / bits)) / OCTAVES_PER_QP
