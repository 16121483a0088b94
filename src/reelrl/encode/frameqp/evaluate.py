"""Controllers of frames x clips x bitrates: who is compared, and the points of each, encoded in parallel.

constant quality at a few QPs ──► target rates between them ──► everybody else at those rates ──► RatePoints

`crf` is libaom's constant quality (its "Q mode"), whose rate nobody asked for; `vbr2` is its own two-pass VBR. Learned
policies have to beat the rule.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from reelrl.encode.codecs.aom.first_pass import TWO_PASS
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.frameqp.evaluation.encodes import controller_of, own_encode, steered_encode
from reelrl.encode.minigop.evaluate import MiniGopContestant
from reelrl.encode.minigop.evaluation.rate_point import RatePoint
from reelrl.errors import ConfigError
from reelrl.parallel import executor
from reelrl.runs.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.content.clip import Clip

ANCHORS = ("vbr2", "crf")
RULE = "rate-model"
DEFAULT_CONTROLLERS = (RULE, "rate-model@public")


class FrameContestant(MiniGopContestant):
    """A line of the table: a mode of libaom, or a controller by name, `@public` behind it or not."""

    @property
    def privileged(self) -> bool:
        return not self.is_mode and controller_of(self.spec).privileged


@dataclass(frozen=True)
class FrameEvaluationPlan:
    """What everybody is put through alike.

    qps     of constant quality; a target rate lies in the middle between each and the next, where no probe is
    frames  of each clip, from its beginning; 0 for all
    """

    qps: tuple[int, ...] = (26, 34, 42, 50, 58)
    frames: int = 0
    encoder: EncoderSettings = TWO_PASS
    seed: int = 0

    def __post_init__(self) -> None:
        if len(set(self.qps)) < 3:
            raise ConfigError(f"{len(set(self.qps))} QPs; rates lie between them, and a curve takes two rates or more")
        if self.frames < 0:
            raise ConfigError(f"frames = {self.frames}; use 1 or more, or 0 for all")

    @property
    def metrics(self) -> tuple[str, ...]:
        return ("psnr_y", "psnr_y_of_mean", "ssim_db")


def encode_everybody(
    contestants: Sequence[FrameContestant], clips: Sequence[Clip], plan: FrameEvaluationPlan, jobs: int = 1
) -> list[RatePoint]:
    """Every contestant on every clip at every rate, anchors included."""
    everyone = with_own_modes(contestants)
    for contestant in everyone:
        if not contestant.is_mode:
            controller_of(contestant.spec)
    windows = [clip.window(0, min(plan.frames or clip.frame_count, clip.frame_count)) for clip in clips]
    others = [contestant for contestant in everyone if contestant.spec != "crf"]
    rates = len(plan.qps) - 1
    points: list[RatePoint] = []
    total = len(clips) * (len(plan.qps) + rates * len(others))
    with Progress("encode", total, unit="encodes") as progress, executor(jobs) as work:
        named = list(zip(clips, windows, strict=True))
        for batch in work.map(
            _own_points, [(clip.name, window, plan) for clip, window in named], name=lambda task: f"crf on {task[0]}"
        ):
            points += batch
            progress.update(len(batch))
        tasks = [
            (contestant, clip.name, window, _targets(points, clip.name), plan)
            for clip, window in named
            for contestant in others
        ]
        for batch in work.map(_points, tasks, name=lambda task: f"{task[0].name} on {task[1]}"):
            points += batch
            progress.update(len(batch))
    return points


def anchors_of(contestants: Sequence[FrameContestant]) -> tuple[str, ...]:
    """Whom everybody is compared with: libaom's own modes, and our rule where it takes part."""
    return (*ANCHORS, RULE) if RULE in {contestant.name for contestant in contestants} else ANCHORS


def with_own_modes(contestants: Sequence[FrameContestant]) -> list[FrameContestant]:
    """The contestants, after those that they are compared with."""
    given = {contestant.name for contestant in contestants}
    return [FrameContestant(name, name) for name in ANCHORS if name not in given] + list(contestants)


def _targets(points: Sequence[RatePoint], clip: str) -> dict[int, int]:
    """By the finer of two QPs: a whole number of kbit/s in the middle, in octaves, of what both spend."""
    own = sorted((point.qp, point.kbps) for point in points if point.clip == clip and point.contestant == "crf")
    return {qp: max(1, round(math.sqrt(kbps * coarser))) for (qp, kbps), (_, coarser) in itertools.pairwise(own)}


@lru_cache(maxsize=1)
def _loaded(clip: Clip) -> Clip:
    return clip.load()


def _own_points(task: tuple[str, Clip, FrameEvaluationPlan]) -> list[RatePoint]:
    name, lazy, plan = task
    clip = _loaded(lazy)
    made = {qp: own_encode(clip, plan.encoder, qp=qp) for qp in sorted(set(plan.qps))}
    return [
        RatePoint.measured("crf", clip, each, qp=qp, kbps=max(1, round(each.kbps)), name=name)
        for qp, each in made.items()
    ]


def _points(task: tuple[FrameContestant, str, Clip, dict[int, int], FrameEvaluationPlan]) -> list[RatePoint]:
    contestant, name, lazy, targets, plan = task
    clip = _loaded(lazy)
    points = []
    for qp, kbps in targets.items():
        if contestant.is_mode:
            made = own_encode(clip, plan.encoder, kbps=kbps)
        else:
            made = steered_encode(contestant.spec, clip, plan.encoder, kbps, plan.seed)
        points.append(RatePoint.measured(contestant.name, clip, made, qp=qp, kbps=kbps, name=name))
    return points
