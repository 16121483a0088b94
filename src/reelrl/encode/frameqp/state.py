"""What an agent sees of a situation: a short vector of numbers near 1, the same for every clip and rate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from reelrl.content.quality import psnr_from_sse
from reelrl.encode.codecs.aom.gops import KINDS, LEAF_LAYER, TPL_FIELDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reelrl.encode.frameqp.protocols import FrameQpEpisode, FrameSituation

LIMIT = 8.0
"""Entries lie in -LIMIT to LIMIT."""

FIRST_PASS = {"intra": 2, "inter": 4, "inter_second": 5, "share_inter": 7, "share_moving": 8}
"""Columns of libaom's first-pass statistics: errors of predicting a frame from itself, from the one before, from the
last golden one; shares of blocks that are predicted from others, and with motion."""

RECENT = 8

NAMES = (
    *(f"is_{kind}" for kind in KINDS),
    *("layer", "own_qindex", "own_bits", "guide"),
    *(f"first_{name}" for name in FIRST_PASS),
    *("ahead_inter", "ahead_cut"),
    *(f"tpl_{name}" for name in TPL_FIELDS),
    *("left_frames", "left_bits", "left_need", "gop_frames", "wanted_bits"),
    *("last_delta", "last_bits", "mean_delta", "mean_bits", "last_psnr", "mean_psnr"),
)
"""Entries in order."""


def observation(situation: FrameSituation, guide: float = 0.0) -> NDArray[np.float32]:
    """The situation as float32 [len(NAMES)]; `guide` is the delta that an agent's decision is added to."""
    episode, request = situation.episode, situation.request
    coming, own = request.coming, request.own
    share = episode.budget_bits / episode.frames
    values = [float(coming.kind == kind) for kind in KINDS]
    values += [coming.layer / LEAF_LAYER, own.qindex / 64 - 2, _log(own.bits + 1, share) / 2, guide / 8]
    values += _first_pass(episode, coming.frame)
    values += _look_ahead(coming.look_ahead, episode)
    left = 1 - coming.frame / episode.frames
    values += [
        2 * left - 1,
        _log(max(request.bits_left, 1), episode.budget_bits) / 2 + 1,
        4 * _log(max(request.rest_bits, 1), max(request.bits_left, 1)),
        coming.gop_frames / 16 - 1,
        _log(share, episode.width * episode.height) / 2 + 2,
    ]
    values += _past(situation)
    return np.array([min(max(value, -LIMIT), LIMIT) for value in values], np.float32)


def _first_pass(episode: FrameQpEpisode, frame: int) -> list[float]:
    """Statistics of the frame, and of those after it how hard they are and whether there is a cut."""
    rows = episode.first_pass
    row = rows[frame]
    values = [math.log2(1 + max(row[FIRST_PASS[name]], 0)) / 4 for name in ("intra", "inter", "inter_second")]
    values += [2 * row[FIRST_PASS[name]] - 1 for name in ("share_inter", "share_moving")]
    ahead = rows[frame + 1 : frame + 1 + RECENT]
    if not len(ahead):
        return [*values, 0.0, -1.0]
    hard = math.log2(1 + ahead[:, FIRST_PASS["inter"]].mean()) / 4
    # The frame after a cut is predicted from nothing.
    return [*values, hard, 1 - 2 * float(ahead[:, FIRST_PASS["share_inter"]].min())]


def _look_ahead(figures: tuple[float, ...], episode: FrameQpEpisode) -> list[float]:
    if not figures:
        return [0.0] * len(TPL_FIELDS)
    del episode  # blocks are of one size in every clip
    return [math.log2(1 + max(figure, 0)) / 8 - 1 for figure in figures]


def _past(situation: FrameSituation) -> list[float]:
    pixels = situation.episode.width * situation.episode.height
    errors = situation.shown_sse[-RECENT:]
    shown = [psnr_from_sse(error, pixels) for error in errors]
    quality = [shown[-1] / 8 - 4.5, sum(shown) / len(shown) / 8 - 4.5] if shown else [0.0, 0.0]
    if not situation.history:
        return [0.0] * 4 + quality
    done = situation.history[-RECENT:]
    own, deltas = situation.own[-len(done) :], situation.deltas[-len(done) :]
    ratio = _log(sum(each.bits for each in done), sum(each.bits for each in own) + 1)
    return [
        deltas[-1] / 8,
        _log(done[-1].bits, own[-1].bits + 1),
        sum(deltas) / len(deltas) / 8,
        ratio,
        *quality,
    ]


def _log(value: float, unit: float) -> float:
    """Octaves of `value` above `unit`."""
    return math.log2(max(value, 1e-9) / max(unit, 1e-9))
