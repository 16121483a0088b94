"""What a shape gains over the rule on clips at bitrates, for many shapes side by side.

    weights of a linear rule, or an offset for each planned frame ──► an encode per clip and rate ──► dB over the rule

A gain is at the bits spent, by both means of PSNR; the lesser counts, so that none is bought with the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reelrl.content.clip import Clip
from reelrl.encode.clip_choice import opened
from reelrl.encode.frameqp.controllers.evolved import EvolvedShape, FixedShape
from reelrl.encode.frameqp.controllers.rules import FrameRateModel
from reelrl.encode.frameqp.reference import RuleReference
from reelrl.encode.frameqp.run import run_frame_controller
from reelrl.encode.frameqp.source.preparation import FramePreparation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from reelrl.encode.frameqp.protocols import FrameQpEpisode
    from reelrl.encode.frameqp.run import FrameQpRun
    from reelrl.parallel import Executor

ALLOWED_ERROR = 0.02
"""Of the bitrate; what lies beyond is charged."""

_CHARGE = 200.0  # percent of the bits for twice the bits
_MOST = 8.0  # percent that a lesson counts at most, either way: one clip must not decide for all


@dataclass(frozen=True)
class FrameLesson:
    """The first `frames` of a clip at the bitrate that constant quality `qp` takes."""

    clip: Clip
    frames: int
    qp: int


class Gain(NamedTuple):
    """dB over the rule at the bits spent, by both means of PSNR.

    charged  what the lesser of them is worth in percent of the bits, less what a missed bitrate costs
    """

    psnr_y: float
    psnr_y_of_mean: float
    charged: float
    rate_error: float


class FrameTrial(NamedTuple):
    """One shape on one lesson: `fixed` is an offset per planned frame, else these are the weights of a rule."""

    lesson: FrameLesson
    numbers: tuple[float, ...]
    fixed: bool = False


class _Prepared(NamedTuple):
    source: FramePreparation
    kbps: float
    rule: FrameQpRun
    reference: RuleReference


@lru_cache(maxsize=64)
def _prepared(lesson: FrameLesson) -> _Prepared:
    source = FramePreparation(opened(lesson.clip, lesson.frames))
    kbps = source.kbps_at(lesson.qp)
    rule = run_frame_controller(source.source(kbps=kbps), FrameRateModel())
    return _Prepared(source, kbps, rule, RuleReference(rule, source.curve_probes(kbps)))


def episode_of(lesson: FrameLesson) -> FrameQpEpisode:
    """What is known before the pass."""
    return _prepared(lesson).rule.episode


def gain_of(trial: FrameTrial) -> Gain:
    """Code the lesson by the shape."""
    source, kbps, rule, reference = _prepared(trial.lesson)
    controller = FixedShape(trial.numbers) if trial.fixed else EvolvedShape(trial.numbers)
    run = run_frame_controller(source.source(kbps=kbps), controller)
    bought = reference.db_per_octave * float(np.log2(run.bits / rule.bits))
    gained = run.psnr_y - rule.psnr_y - bought, run.psnr_y_of_mean - rule.psnr_y_of_mean - bought
    charge = _CHARGE * max(abs(run.rate_error) - ALLOWED_ERROR, 0.0)
    percent = 100 * (1 - 2 ** (-min(gained) / reference.db_per_octave))
    return Gain(*gained, percent - charge, run.rate_error)


def mean_gains(weights: Sequence[NDArray[np.float64]], lessons: Sequence[FrameLesson], work: Executor) -> list[float]:
    """Mean of what each rule saves over all lessons, in percent of the bits."""
    trials = [FrameTrial(lesson, tuple(each.tolist())) for each in weights for lesson in lessons]
    gains = [
        min(max(gain.charged, -_MOST), _MOST)
        for gain in work.map(gain_of, trials, name=lambda trial: trial.lesson.clip.name)
    ]
    return [float(np.mean(row)) for row in np.reshape(gains, (len(weights), len(lessons)))]
