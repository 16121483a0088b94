"""Superblock maps x clips x QPs: the rate-distortion points of every contestant, encoded in parallel.

Every encode is cached on disk, so an evaluation that was killed goes on where it stood, and a contestant more costs
only its own encodes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from reelrl.content.catalogue import split_of
from reelrl.encode.clip_choice import PRISTINE
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.superblock.contestants import NO_MAP, MapContestant, decisions, prepare
from reelrl.encode.superblock.measure import CHEAP, Measured, measure
from reelrl.encode.superblock.over_time import TIME_RULE
from reelrl.errors import ConfigError
from reelrl.parallel import executor
from reelrl.runs.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.content.clip import Clip


@dataclass(frozen=True)
class SuperblockEvaluationPlan:
    """What everybody is put through alike.

    frames   of each window; 1: still pictures
    windows  of each clip, spread over it; the first begins where the clip does
    encoder  without maps; QPs come from `qps`
    """

    # A BD-rate takes four points. Nine QP steps or so halve the bits: these span almost three halvings, the rates
    # that people use, and a map's curve shares most of its qualities with the anchor's.
    qps: tuple[int, ...] = (28, 36, 44, 52)
    frames: int = 30
    windows: int = 1
    metrics: tuple[str, ...] = CHEAP
    encoder: EncoderSettings = EncoderSettings(backend="aom", picture_qp=True)  # noqa: RUF009 - frozen
    seed: int = 0

    def __post_init__(self) -> None:
        if len(set(self.qps)) < 2:
            raise ConfigError(f"{len(set(self.qps))} QPs; a curve takes two, and four to be trusted")
        if min(self.frames, self.windows) < 1:
            raise ConfigError(f"frames = {self.frames}, windows = {self.windows}; use 1 or more of each")

    @property
    def over_time(self) -> bool:
        """The rule over time says something: there is more than one frame."""
        return self.frames > 1


@dataclass(frozen=True)
class EncodePoint:
    """One encode of one window of a clip by one contestant."""

    contestant: str
    clip: str
    window: int
    source: str
    split: str
    pristine: bool
    qp: int
    measured: Measured

    def row(self) -> dict[str, Any]:
        """Flat, for a table."""
        record: dict[str, Any] = asdict(self)
        measured: dict[str, Any] = record.pop("measured")
        quality: dict[str, float] = measured.pop("quality")
        return record | measured | quality


def encode_all(
    contestants: Sequence[MapContestant], clips: Sequence[Clip], plan: SuperblockEvaluationPlan, jobs: int = 1
) -> list[EncodePoint]:
    """Every contestant on every clip at every QP, anchors included, in the order of the arguments."""
    everyone = with_anchors(contestants, plan.over_time)
    _check_names(everyone)
    for contestant in everyone:
        prepare(contestant)
    # A task is all QPs of a contestant on a clip: with its frames the clip travels to a worker once, not once per QP.
    tasks = [
        (contestant, number, replace(window, name=clip.name), plan)
        for clip in clips
        for number, window in enumerate(_windows(clip, plan))
        for contestant in everyone
    ]
    points: list[EncodePoint] = []
    with Progress("encode", len(tasks) * len(plan.qps), unit="encodes") as progress, executor(jobs) as work:
        for batch in work.map(_encode_points, tasks, name=lambda task: f"{task[0].name} on {task[2].name}"):
            points += batch
            progress.update(len(batch))
    return points


def _windows(clip: Clip, plan: SuperblockEvaluationPlan) -> list[Clip]:
    frames = min(plan.frames, clip.frame_count)
    starts = [number * (clip.frame_count - frames) // plan.windows for number in range(plan.windows)]
    return [clip.window(start, frames).load() for start in starts]


def with_anchors(contestants: Sequence[MapContestant], over_time: bool = True) -> list[MapContestant]:
    """The contestants, after those that they are compared with, and in tables over time that rule beside no map."""
    timed = [TIME_RULE] if over_time else []
    needed = dict.fromkeys([NO_MAP, *timed, *(contestant.anchor for contestant in contestants)])
    given = {contestant.name for contestant in contestants}
    return [MapContestant(name, name) for name in needed if name not in given] + list(contestants)


def _check_names(contestants: Sequence[MapContestant]) -> None:
    names = [contestant.name for contestant in contestants]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two contestants are called {name!r}; name them: NAME=SPEC")


def _encode_points(task: tuple[MapContestant, int, Clip, SuperblockEvaluationPlan]) -> list[EncodePoint]:
    contestant, window, clip, plan = task
    pristine = clip.source.startswith(PRISTINE)
    points = []
    for qp in plan.qps:
        encoder = replace(plan.encoder, qp=qp)
        if contestant.is_mode:
            # With a QP for every picture the quantisers are ours; an encoder's own modes need crf, where it decides.
            encoder = replace(encoder, rate_control="crf", picture_qp=False, options=contestant.options)
            measured = measure(clip, encoder, metrics=plan.metrics)
        else:
            maps, qps = decisions(contestant, clip, encoder, plan.seed)
            measured = measure(clip, encoder, maps, metrics=plan.metrics, qps=qps)
        where = (contestant.name, clip.name, window, clip.source, split_of(clip.source), pristine)
        points.append(EncodePoint(*where, qp, measured))
    return points
