"""Mini-GOP controllers x clips x bitrates: who is compared, and the points of each, encoded in parallel.

crf encodes at a few QPs ──► target rates of a clip ──► everybody else at those rates ──► RatePoints

A contestant is one of the encoder's own rate controls or a controller of ours over the same encoder at the same
settings. Encodes are cached, so an evaluation that was killed goes on where it stood.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from reelrl.content.clip import concatenate
from reelrl.content.sources import open_clip
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.minigop.evaluation.controller_encodes import check_controller, controller_encode, is_privileged
from reelrl.encode.minigop.evaluation.encoder_modes import MODES, crf_encode, mode_encode, structured
from reelrl.encode.minigop.evaluation.rate_point import RatePoint
from reelrl.encode.minigop.protocols import Goal
from reelrl.encode.minigop.source.preparation import HEADROOM
from reelrl.errors import ConfigError
from reelrl.parallel import executor
from reelrl.runs.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from reelrl.content.clip import Clip
    from reelrl.encode.minigop.evaluation.encode_cache import Encode

ANCHORS: dict[Goal, tuple[str, ...]] = {"vbr": ("vbr1", "vbr2", "crf"), "cbr": ("cbr", "crf")}
"""Whom everybody is compared with under each goal."""

DEFAULT_CONTROLLERS: dict[Goal, tuple[str, ...]] = {
    "vbr": ("crf-replay", "auto-boost", "rate-model"),
    "cbr": ("leaky-bucket",),
}
"""Who is compared where nobody else was asked for."""

LEAST_KBPS = 1  # a target is a whole number of kbit/s, and a still picture may take less than half of one


@dataclass(frozen=True)
class MiniGopContestant:
    """A line of the table. `{source}` in a spec stands for the source of the clip, so that a policy that was fitted
    without that source can be taken for each.
    """

    name: str
    spec: str

    @staticmethod
    def parse(text: str) -> MiniGopContestant:
        """`pi`, `runs/0007`, `policies/without-{source}.safetensors`, each with `name=` before it if you like."""
        name, equals, spec = text.partition("=")
        return MiniGopContestant(name, spec) if equals else MiniGopContestant(text, text)

    @property
    def is_mode(self) -> bool:
        return self.spec in MODES

    @property
    def privileged(self) -> bool:
        return not (self.is_mode or "{source}" in self.spec) and is_privileged(self.spec)

    def for_clip(self, clip: Clip) -> str:
        """The spec for one clip."""
        return for_source(self.spec, clip.source)


@dataclass(frozen=True)
class MiniGopEvaluationPlan:
    """What everybody is put through alike.

    goal      "vbr": the whole clip's bits, in random access; "cbr": within a buffer, in low delay
    qps       of the crf encodes that the target rates of a clip come from
    frames    of each clip, from its beginning; 0 for all
    buffer_s  of the leaky bucket that late frames are counted by
    headroom  QP steps by which sessions of controllers are opened above their probe's, in random access
    """

    goal: Goal = "vbr"
    # Rates come from QPs, not from a list of kbit/s: so every clip is judged where its own quality lies.
    qps: tuple[int, ...] = (28, 34, 40, 46, 52)
    frames: int = 0
    encoder: EncoderSettings = EncoderSettings(preset=8, keyint=161)  # noqa: RUF009 - frozen
    buffer_s: float = 1.0
    headroom: int = HEADROOM
    with_vmaf: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.goal not in ANCHORS:
            raise ConfigError(f"goal {self.goal!r}; use vbr or cbr")
        if len(set(self.qps)) < 2:
            raise ConfigError(f"{len(set(self.qps))} QPs; a curve takes two, and four to be trusted")
        if self.goal == "vbr" and self.encoder.keyint == -1:
            raise ConfigError(
                "keyint = -1: the encoder's own vbr needs key frames; set a number of frames, such as 161"
            )
        if self.frames < 0:
            raise ConfigError(f"frames = {self.frames}; use 1 or more, or 0 for all")

    @property
    def settings(self) -> EncoderSettings:
        """The encoder in the structure of the goal."""
        return structured(self.encoder, self.goal)

    @property
    def metrics(self) -> tuple[str, ...]:
        return ("psnr_y", "psnr_y_of_mean", "ssim_db", *(["vmaf"] if self.with_vmaf else []))


def encode_all(
    contestants: Sequence[MiniGopContestant], clips: Sequence[Clip], plan: MiniGopEvaluationPlan, jobs: int = 1
) -> list[RatePoint]:
    """Every contestant on every clip at every rate, anchors included; crf comes first."""
    everyone = with_anchors(contestants, plan.goal)
    _check(everyone, clips, plan)
    windows = [beginning(clip, plan) for clip in clips]
    others = [contestant for contestant in everyone if contestant.spec != "crf"]
    points: list[RatePoint] = []
    total = len(windows) * len(plan.qps) * (1 + len(others))
    with Progress("encode", total, unit="encodes") as progress, executor(jobs) as work:
        # crf first, because everybody else's bitrates are what it spent.
        for batch in work.map(
            _crf_points, [(clip, plan) for clip in windows], name=lambda task: f"crf on {task[0].name}"
        ):
            points += batch
            progress.update(len(batch))
        targets = {(point.clip, point.qp): point.target_kbps for point in points}
        # A task is all rates of a contestant on a clip, clip by clip: a process decodes a clip once for many encodes.
        tasks = [
            (contestant, clip, {qp: targets[clip.name, qp] for qp in plan.qps}, plan)
            for clip in windows
            for contestant in others
        ]
        for batch in work.map(_points, tasks, name=lambda task: f"{task[0].name} on {task[1].name}"):
            points += batch
            progress.update(len(batch))
    return points


def with_anchors(contestants: Sequence[MiniGopContestant], goal: Goal) -> list[MiniGopContestant]:
    """The contestants, after those that they are compared with."""
    given = {contestant.name for contestant in contestants}
    return [MiniGopContestant(name, name) for name in ANCHORS[goal] if name not in given] + list(contestants)


def for_source(path: str, source: str) -> str:
    """The path with `{source}` written out, as file systems take it."""
    return path.replace("{source}", source.replace(":", "-").replace("/", "-"))


def open_sequence(name: str) -> Clip:
    """A clip by name; several with '+' between them are shown one after the other."""
    parts = [open_clip(part) for part in name.split("+")]
    return parts[0] if len(parts) == 1 else concatenate(parts, name)


def beginning(clip: Clip, plan: MiniGopEvaluationPlan) -> Clip:
    """As much of a clip as is coded."""
    if not plan.frames or plan.frames >= clip.frame_count:
        return clip
    return replace(clip.window(0, plan.frames), name=clip.name)


def buffer_use(frame_bytes: Sequence[int], fps: Fraction, kbps: float, buffer_s: float) -> tuple[int, float]:
    """(frames that come too late, fullest the buffer ever was in seconds) of a stream sent at a constant rate.

    A leaky bucket: each frame falls in as a whole, the rate drains it, and it never holds less than nothing.
    """
    full_s, peak_s, late = 0.0, 0.0, 0
    for size in frame_bytes:
        full_s += size * 8 / (kbps * 1000)
        late += full_s > buffer_s
        peak_s = max(peak_s, full_s)
        full_s = max(full_s - float(1 / fps), 0.0)
    return late, peak_s


def _check(everyone: Sequence[MiniGopContestant], clips: Sequence[Clip], plan: MiniGopEvaluationPlan) -> None:
    """Complain about what cannot be before anything is encoded."""
    for kind, names in (("contestants", [c.name for c in everyone]), ("clips", [c.name for c in clips])):
        for name in names:
            if names.count(name) > 1:
                hint = "; name them: NAME=SPEC" if kind == "contestants" else "; name each once"
                raise ConfigError(f"two {kind} are called {name!r}{hint}")
    for contestant in everyone:
        if contestant.is_mode and plan.goal not in MODES[contestant.spec].goals:
            raise ConfigError(
                f"{contestant.spec} has no part in the goal {plan.goal}; it is for {MODES[contestant.spec].goals[0]}"
            )
        if not contestant.is_mode:
            for spec in {contestant.for_clip(clip) for clip in clips}:
                check_controller(spec)


@lru_cache(maxsize=1)
def _in_memory(clip: Clip) -> Clip:
    """The clip with its frames: decoded once for all that a process does with it in a row."""
    loaded = clip.load()
    _ = loaded.content_hash
    return loaded


def _crf_points(task: tuple[Clip, MiniGopEvaluationPlan]) -> list[RatePoint]:
    clip, plan = _in_memory(task[0]), task[1]
    points = []
    for qp in plan.qps:
        made = crf_encode(clip, plan.settings, qp, with_vmaf=plan.with_vmaf)
        points.append(_point("crf", clip, qp, max(LEAST_KBPS, round(made.kbps)), made, plan))
    return points


def _points(task: tuple[MiniGopContestant, Clip, dict[int, int], MiniGopEvaluationPlan]) -> list[RatePoint]:
    contestant, lazy, targets, plan = task
    clip = _in_memory(lazy)
    points = []
    for qp, kbps in targets.items():
        if contestant.is_mode:
            made = mode_encode(clip, plan.settings, contestant.spec, kbps, with_vmaf=plan.with_vmaf)
        else:
            made = controller_encode(contestant.for_clip(clip), clip, plan, kbps)
        points.append(_point(contestant.name, clip, qp, kbps, made, plan))
    return points


def _point(name: str, clip: Clip, qp: int, kbps: int, made: Encode, plan: MiniGopEvaluationPlan) -> RatePoint:
    buffer = buffer_use(made.frame_bytes, clip.fps, kbps, plan.buffer_s)
    return RatePoint.measured(name, clip, made, qp=qp, kbps=kbps, buffer=buffer, deltas=made.deltas)
