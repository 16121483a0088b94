"""What an agent sees of a situation: a short vector of numbers near 1, the same for every clip, rate and structure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from reelrl.encode.minigop.protocols import MiniGopEpisode, MiniGopFeedback, PlannedMiniGop, Situation

AHEAD = 3
"""Mini-GOPs after the next one that are looked at, where the encoder knows them."""

LIMIT = 8.0
"""Entries lie in -LIMIT to LIMIT."""

NAMES = (
    *("intra", "inter", "motion", "inter_last", "scene_cut", "probe_bits", "probe_db"),
    *(f"{name}+{step}" for step in range(1, AHEAD + 1) for name in ("inter", "scene_cut", "probe_bits")),
    *("left_frames", "left_bits", "left_need", "bucket"),
    *("last_delta", "last_bits", "last_psnr", "mean_delta", "mean_bits"),
    *("base_qp", "wanted_bits", "guide", "lag", "low_delay", "frames"),
)
"""Entries in order."""


def observation(situation: Situation, guide: float = 0.0) -> NDArray[np.float32]:
    """The situation as float32 [len(NAMES)]; `guide` is the delta that an agent's decision is added to."""
    episode, request = situation.episode, situation.request
    plan = episode.plan
    share = episode.kbps * 1000 / float(episode.fps)  # bits of an average frame
    values = [*_content(request.features), *_probed(plan, request.mg, share, episode)]
    for step in range(1, AHEAD + 1):
        values += _ahead(plan, request.mg + step, share)
    left = request.frames_left / episode.frames
    values += [
        2 * left - 1,
        _log(max(request.bits_left, 0) / episode.budget_bits, left),
        _need(situation),
        bucket_level(situation) / max(episode.buffer_s * episode.kbps * 1000, 1.0),
    ]
    values += _past(situation.history, share)
    values += [
        request.base_qp / 16 - 2.5,
        math.log2(share / max(episode.width * episode.height, 1)) / 2 + 2,
        guide / 4,
        episode.feedback_lag / 2,
        float(plan is None),
        request.frames / 8 - 2,
    ]
    return np.clip(np.nan_to_num(np.array(values, np.float32)), -LIMIT, LIMIT)


def bucket_level(situation: Situation) -> float:
    """Bits in the leaky bucket after all that is known: filled by pictures, drained at the rate, never below empty."""
    episode = situation.episode
    drain = episode.kbps * 1000 / float(episode.fps)
    level = 0.0
    for feedback in situation.history:
        level = max(level + feedback.bits - feedback.frames * drain, 0.0)
    return level


def _content(features: Mapping[str, float]) -> list[float]:
    energies = [_log(features.get(name, 0.0) + 0.1, 2.0) for name in ("intra", "inter", "motion", "inter_last")]
    return [*energies, 2 * features.get("scene_cut", 0.0) - 1]


def _probed(
    plan: tuple[PlannedMiniGop, ...] | None, mg: int, share: float, episode: MiniGopEpisode
) -> tuple[float, float]:
    """Bits of the probe per frame against the budget's, and its PSNR."""
    if plan is None or plan[mg].probe_bits is None or plan[mg].probe_sse is None:
        return 0.0, 0.0
    planned = plan[mg]
    error = (planned.probe_sse or 1) / (planned.frames * episode.width * episode.height)
    return _log((planned.probe_bits or 1) / planned.frames, share), (math.log10(65025 / max(error, 1e-3)) - 3.6) * 2


def _ahead(plan: tuple[PlannedMiniGop, ...] | None, mg: int, share: float) -> list[float]:
    if plan is None or mg >= len(plan):
        return [0.0, 0.0, 0.0]
    planned = plan[mg]
    bits = _log((planned.probe_bits or 1) / planned.frames, share)
    return [_log(planned.features["inter"] + 0.1, 2.0), 2 * planned.features["scene_cut"] - 1, bits]


def _need(situation: Situation) -> float:
    """What the probe took for the rest of the clip, over what is left: above 0 the rest must get coarser."""
    plan, request = situation.episode.plan, situation.request
    if plan is None:
        return 0.0
    # What was decided but is not known yet is owed too, so the rest begins where the history ends.
    rest = sum(planned.probe_bits or 0 for planned in plan[len(situation.history) :])
    return _log(rest, max(request.bits_left, 1.0))


def _past(history: list[MiniGopFeedback], share: float) -> list[float]:
    if not history:
        return [0.0] * 5
    last, recent = history[-1], history[-4:]
    bits = sum(feedback.bits for feedback in recent) / sum(feedback.frames for feedback in recent)
    return [
        last.delta / 4,
        _log(last.bits / last.frames, share),
        last.psnr_y / 4 - 9,
        sum(feedback.delta for feedback in recent) / len(recent) / 4,
        _log(bits, share),
    ]


def _log(value: float, unit: float) -> float:
    """Octaves of `value` above `unit`."""
    return math.log2(max(value, 1e-9) / max(unit, 1e-9))
