"""What the parts will take: sample encodes find a QP, then every part is coded at it once, by a faster preset.

A faster preset takes other bits at the same CRF, mostly because it gives its pictures other QPs. The encode replays
those QPs and takes what the probe took, give or take a few percent; each part's controller learns the rest as it codes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from reelrl.content.clip import Clip
from reelrl.encode.codecs.session import EncoderSession
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.minigop.protocols import CRF_STEPS_PER_QP, OCTAVES_PER_QP
from reelrl.encode.minigop.source.plan import ClipPlan, probed_plan, spans_of
from reelrl.encode.minigop.source.preparation import possible_slope
from reelrl.encode.minigop.source.probe import probe
from reelrl.encode.minigop.source.starting_qp import near
from reelrl.encode.parts.board import TaskProgress, side_by_side
from reelrl.encode.parts.cuts import VideoPart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.encode.parts.scan import Scan
    from reelrl.parallel import Executor

FASTER, FASTEST = 2, 13
"""Presets by which the probe is faster than the encode, up to the fastest."""

_ABLE = 9  # the fastest preset that codes flat graphics and fast motion in about the bits of slower ones

# Sample encodes of two mini-GOPs: one in so many frames, up to so many.
_SAMPLE_MINIGOPS, _SAMPLE_EVERY, _MOST_SAMPLES = 2, 150, 24
_FIRST_QP, _LEAST_STEP = 40, 5  # of the sample encodes
_SHORT = 100  # frames: of so few a second sample would cost as much as a second probe
# Octaves that clips take above what their samples say: behind a sample the encoder sees no more frames that would lean
# on its own, and spends less on it. (0.4 behind one mini-GOP.)
_UNSEEN_OCTAVES = 0.1
# Encodes by presets below this take less than samples by the fastest, by so much a preset.
_LIKE_SAMPLES, _OCTAVES_PER_PRESET = 9, 0.1
# What encodes take of the probe's bits at the probe's QPs: 0.86 to 0.99 of generated clips by presets 4 and 8, and 0.91
# to 1.04 of 54 frames where the probe has the encode's own preset, 0.955 on the mean.
_BITS_OF_PROBE, _BITS_OF_OWN, _SLOW_ENCODE = 0.93, 0.96, 9
_FAR_OCTAVES = 0.3  # a probe that is further from the budget is made again, nearer


@dataclass(frozen=True)
class ProbeTask:
    """Frames to code by the encoder alone, and to throw away; `content` names the pictures."""

    clip: Clip
    part: VideoPart
    settings: EncoderSettings
    content: str = ""
    place: TaskProgress | None = None


def probe_part(task: ProbeTask) -> ClipPlan:
    """The plan of a part, from disk where the same encoder made it before."""
    clip, place = task.clip.window(task.part.first, task.part.frames), task.place
    watched = clip
    if place is not None:
        watched = replace(clip, start_reading=lambda start: place.counted(clip.frames(start)))
    probed = probe(watched, task.settings, content=task.content)
    if place is not None:
        place.finish(clip.frame_count, 0)
    spans = spans_of(clip.frame_count, task.settings)
    return probed_plan(spans, probed, task.settings.qp, [{}] * len(spans))


def sample(task: ProbeTask) -> tuple[int, float]:
    """Bits of a key frame, and of a frame after it on average."""
    frames = islice(task.clip.frames(task.part.first), task.part.frames)
    with EncoderSession(task.settings) as session:
        key, *others = [8 * packet.size for packet in session.encode(frames)]
    return key, sum(others) / max(len(others), 1)


@dataclass(frozen=True)
class Probes:
    """All parts, probed at one QP.

    slopes  octaves that a QP step takes from the bits of each part
    passes  how often all were probed
    ratio   what an encode usually takes of its probe's bits
    """

    plans: tuple[ClipPlan, ...]
    slopes: tuple[float, ...]
    passes: int
    ratio: float = 1.0

    @property
    def bits(self) -> float:
        """What the encode takes at the probe's QPs."""
        return self.ratio * sum(plan.bits for plan in self.plans)


class Prober:
    """Probes the parts of a clip that will be coded with `settings`."""

    def __init__(
        self, clip: Clip, parts: Sequence[VideoPart], seen: Scan, settings: EncoderSettings, work: Executor
    ) -> None:
        self._clip, self._parts, self._seen, self._work = clip, parts, seen, work
        self._settings = replace(settings, picture_qp=False, recon=False, psnr=False, ssim=False)

    def at_crf(self) -> Probes:
        """By the encode's own preset, at the QP of its settings: what the encoder alone takes."""
        return Probes(self._probed(self._settings), self._alike(OCTAVES_PER_QP), 1)

    def at_rate(self, bits: float) -> Probes:
        """By a faster preset, at a QP at which the encode takes about so many bits."""
        preset = self._settings.preset
        fast = replace(self._settings, preset=self._probe_preset())
        ratio = 1.0 if preset > _SLOW_ENCODE else _BITS_OF_OWN if fast.preset == preset else _BITS_OF_PROBE
        qp, octaves_per_qp = self._guess(bits)
        first = Probes(self._probed(replace(fast, qp=qp)), self._alike(octaves_per_qp), 1, ratio)
        octaves = math.log2(first.bits / bits)
        better = near(qp + octaves * CRF_STEPS_PER_QP / octaves_per_qp)
        if abs(octaves) < _FAR_OCTAVES or better == qp:
            return first
        second = Probes(self._probed(replace(fast, qp=better)), first.slopes, 2, ratio)
        nearer = min(first, second, key=lambda probes: abs(math.log2(probes.bits / bits)))
        # Two probes show what a QP step takes better than the sample encodes do, and of each part.
        both = zip(first.plans, second.plans, strict=True)
        slopes = (CRF_STEPS_PER_QP * math.log2(one.bits / other.bits) / (better - qp) for one, other in both)
        return replace(nearer, slopes=tuple(map(possible_slope, slopes)), passes=2)

    def _probe_preset(self) -> int:
        preset = self._settings.preset
        if self._clip.frame_count < _SHORT:
            return preset  # too few frames to make up for anything on the way: to code all again costs more
        return min(preset + FASTER, FASTEST if preset > _ABLE else _ABLE)

    def _alike(self, octaves_per_qp: float) -> tuple[float, ...]:
        return (possible_slope(octaves_per_qp),) * len(self._parts)

    def _guess(self, bits: float) -> tuple[int, float]:
        """A QP at which the clip takes about so many bits, and what a QP step takes there, by sample encodes."""
        settings = replace(self._settings, preset=FASTEST)
        bits *= 2 ** (_OCTAVES_PER_PRESET * max(_LIKE_SAMPLES - self._settings.preset, 0))
        qp = _FIRST_QP
        octaves = self._sampled_octaves(replace(settings, qp=qp), bits)
        if self._clip.frame_count < _SHORT:
            return near(qp + octaves * CRF_STEPS_PER_QP / OCTAVES_PER_QP), OCTAVES_PER_QP
        step = round(octaves / OCTAVES_PER_QP)
        following = near(qp + (step if abs(step) >= _LEAST_STEP else math.copysign(_LEAST_STEP, step or 1)))
        then = self._sampled_octaves(replace(settings, qp=following), bits)
        octaves_per_qp = possible_slope((octaves - then) / (following - qp))
        return near(following + then / octaves_per_qp), octaves_per_qp

    def _sampled_octaves(self, settings: EncoderSettings, bits: float) -> float:
        """How far the clip is above the budget, by its samples."""
        return math.log2(self._sampled(settings) / bits) + _UNSEEN_OCTAVES

    def _probed(self, settings: EncoderSettings) -> tuple[ClipPlan, ...]:
        tasks = [ProbeTask(self._clip, part, settings, self._seen.key(part)) for part in self._parts]
        return tuple(side_by_side(self._work, probe_part, tasks, "probe"))

    def _sampled(self, settings: EncoderSettings) -> float:
        """Bits of the clip, judged from a few of its mini-GOPs, two each behind a key frame of their own."""
        frames = self._clip.frame_count
        count = min(_SAMPLE_MINIGOPS * 2**settings.levels + 1, frames)
        number = _samples(frames)
        places = [round((frames - count) * (place + 0.5) / number) for place in range(number)]
        tasks = [ProbeTask(self._clip, self._inside(place, count), settings) for place in places]
        found = list(self._work.map(sample, tasks))
        key, inter = sum(bits for bits, _ in found) / number, sum(bits for _, bits in found) / number
        keys = sum(len({span.gop for span in spans_of(part.frames, settings)}) for part in self._parts)
        return keys * key + (frames - keys) * inter

    def _inside(self, first: int, frames: int) -> VideoPart:
        """Frames from about `first` on that lie in one part, where it is long enough."""
        part = next(part for part in self._parts if first < part.end)
        return VideoPart(0, max(min(first, part.end - frames), part.first), min(frames, part.frames))


def _samples(frames: int) -> int:
    """How many places of a clip are looked at: a second probe of all that a poor guess asks for costs far more."""
    return min(max(round(frames / _SAMPLE_EVERY), 1), _MOST_SAMPLES)
