"""One encode that is steered to its target: a few frames are scored as it goes, and what is still to come makes up.

The encoder begins at the chosen CRF. When the first mini-GOPs are out, two frames of each are scored, and the PSNR of
all, which the encoder knows, says how far they stand for the others: how much a dB is worth, scores of the same encode
say. The CRF of those that follow is moved so that the mean of all frames is expected on the target; the encoder still
shares out QPs among pictures by itself. An encode that can't get there any more is given up early: it costs what is
coded by then.

    scene ─► encoder ─► mini-GOPs ─► scores of a few frames ─► SceneSearch.rest_at ─► CRF of what is still to come
                ▲                                                                                │
                └────────────────────────────────────────────────────────────────────────────────┘
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from reelrl.encode.codecs.packet import Packet
from reelrl.encode.codecs.session import EncoderSession
from reelrl.encode.minigop.source.in_process import clipped, frames_held
from reelrl.encode.minigop.source.plan import spans_of
from reelrl.encode.target.levels import Stretch, of_all, per_db
from reelrl.encode.target.measured import at_crf, cpu_s
from reelrl.encode.target.scores import frame_scores, pooled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.content.clip import Clip
    from reelrl.content.frame import Frame
    from reelrl.encode.codecs.settings import EncoderSettings
    from reelrl.encode.minigop.source.plan import Span
    from reelrl.encode.target.search import SceneSearch

LEAST_MINIGOPS = 5
"""Scenes of fewer are nearly coded when the first scores are there."""

FIRST_CHECK = 3
"""Mini-GOP whose CRF is the first that scores decide: two mini-GOPs are out by then."""

_CHECKS = 7  # of a long scene, about; twice as many at slow presets
_FAST = 7  # preset; from it on, scores are dear beside the encode
_MOST_SCORED = 30  # frames of a scene, about
_LARGEST_OFF = 1.5  # dB of a stretch that is not scored, from what was scored before it
# Of each mini-GOP one frame of the uppermost layer, which has half of all frames, and one of the others in turn: eight
# mini-GOPs have each of them once.
# One frame of each, in the middle of its layers, was up to 1.8 VMAF off.
_UPPERMOST = (11, 3, 1, 15, 9, 13, 5, 7)
_OTHERS = (6, 12, 10, 8, 2, 4, 14, 16)


@dataclass(frozen=True)
class SteeredScene:
    """An encode, what was scored of it, and what that took; its stretches are all of its frames."""

    packets: list[Packet]
    stretches: list[Stretch]
    score_cpu_s: float


class _GaveUp(Exception):
    """The encode can't meet its target any more; `stretches` were scored by then."""

    def __init__(self, stretches: list[Stretch]) -> None:
        super().__init__("another CRF to begin with is better")
        self.stretches = stretches


def steerable(frames: int, settings: EncoderSettings) -> bool:
    return len(spans_of(frames, settings)) >= LEAST_MINIGOPS


def frames_before_check(settings: EncoderSettings) -> int:
    """Frames that are sent when the first scores are made."""
    size: int = 2**settings.levels
    return (FIRST_CHECK + 1) * size


def frames_to_score(spans: Sequence[Span], frames: int) -> set[int]:
    """Two of each mini-GOP, or of every second or third of a long scene; each has a neighbour on both sides."""
    every = -(-2 * len(spans) // _MOST_SCORED)
    chosen = set()
    for turn, span in enumerate(spans[::every]):
        before = span.first - (span.mg > 0)  # the base picture before it, or the key frame
        chosen |= {before + place for place in (_UPPERMOST[turn % 8], _OTHERS[turn % 8])}
    return {number for number in chosen if 0 < number < frames - 1}


def checks_in(spans: Sequence[Span], preset: int) -> set[int]:
    """Mini-GOPs at whose end all that is out is scored: their own CRF can still be moved.

    At those between, PSNR alone says how good it is.
    """
    apart = max(2, -(-len(spans) // _CHECKS)) if preset >= _FAST else -(-len(spans) // (2 * _CHECKS))
    return set(range(FIRST_CHECK, len(spans), apart))


def steered_to_target(
    scene: Clip, settings: EncoderSettings, search: SceneSearch, crf: float
) -> tuple[SteeredScene, list[list[Stretch]], float]:
    """(the scene at its target, what was scored of each encode of it, CPU seconds of those that do not stay).

    The first encode begins at `crf`; `search` decides where the next does, and learns from each.
    """
    encodes: list[list[Stretch]] = []
    before: list[Stretch] = []
    frames, thrown_away_cpu_s = scene.frame_count, 0.0
    while True:
        last, begin_s = len(encodes) + 1 >= search.rules.encodes, cpu_s()
        try:
            encode = _Steering(scene, settings, search, crf, before, last).run()
        except _GaveUp as given_up:
            encodes.append(given_up.stretches)
        else:
            encodes.append(encode.stretches)
            if last or search.is_met(encode.stretches, frames):
                search.learn(encode.stretches, frames)
                return encode, encodes, thrown_away_cpu_s
        crf, before = search.start_again(encodes[-1], frames, before), encodes[-1]
        thrown_away_cpu_s += cpu_s() - begin_s


class _Steering:
    def __init__(
        self,
        scene: Clip,
        settings: EncoderSettings,
        search: SceneSearch,
        crf: float,
        before: Sequence[Stretch],
        last: bool,
    ) -> None:
        self._scene, self._search, self._before, self._last = scene, search, before, last
        # With reconstructions: without, the encoder skips the last filters of pictures that nobody refers to.
        self._settings = replace(at_crf(settings.for_clip(scene), round(crf)), recon=True, psnr=True, ssim=False)
        self._spans = spans_of(scene.frame_count, self._settings)
        self._wanted = frames_to_score(self._spans, scene.frame_count)
        self._source: dict[int, Frame] = {}  # frames to score and their neighbours, until they are scored
        self._coded: dict[int, Frame] = {}
        self._packets: list[Packet] = []
        self._psnrs: dict[int, float] = {}
        self._scores: dict[int, float] = {}
        self._crfs: list[int] = []  # of each frame whose mini-GOP was sent
        self._aim, self._in_force, self._owed = crf, self._settings.qp, 0.0
        self._stretches: list[Stretch] = []
        self._score_cpu_s = 0.0

    def run(self) -> SteeredScene:
        size = 2**self._settings.levels
        checks = checks_in(self._spans, self._settings.preset)
        frames = iter(self._scene)
        with EncoderSession(self._settings) as session:
            for span in self._spans:
                whole = span.frames >= size
                for number in range(span.first, span.end):
                    base_qp = None
                    if whole and number == span.end - 1 and span.mg:
                        base_qp = self._next_crf(session, span.mg, scored=span.mg in checks)
                    frame = next(frames)
                    if self._wanted & {number - 1, number, number + 1}:
                        self._source[number] = frame
                    session.send(frame, base_qp=base_qp)
                    self._take(session.receive())
                self._crfs += [self._in_force] * span.frames
            self._take(session.flush())
        self._know(self._scene.frame_count, scored=True)
        return SteeredScene(self._packets, self._stretches, self._score_cpu_s)

    def _next_crf(self, session: EncoderSession, minigop: int, *, scored: bool) -> int | None:
        """The CRF of the mini-GOP that is about to end, where it is another than before: whole steps, on average what
        is aimed at.
        """
        if minigop >= FIRST_CHECK:
            self._aim = self._checked(session, scored=scored)
        wanted = self._aim + self._owed
        crf = clipped(round(wanted))
        self._owed = min(max(wanted - crf, -1.0), 1.0)
        before, self._in_force = self._in_force, crf
        return crf if crf != before else None

    def _checked(self, session: EncoderSession, *, scored: bool) -> float:
        """The CRF for the rest, by what is out for certain: scored, or by its PSNR alone."""
        known = max(span.end for span in self._spans if span.end + frames_held(self._settings) <= session.sent)
        if len(self._packets) < known:
            self._take(session.receive(wait_for=known - 1))
        self._know(known, scored=scored)
        crf = self._search.rest_at(
            self._stretches,
            self._crfs[known:],
            self._scene.frame_count,
            self._settings.qp,
            before=self._before,
            last=self._last or not scored,  # PSNR alone is no reason to give up
        )
        if crf is None:
            raise _GaveUp(self._stretches)
        return crf

    def _take(self, packets: list[Packet]) -> None:
        for packet in packets:
            if packet.number in self._wanted and packet.recon is not None:
                self._coded[packet.number] = packet.recon
            packet.recon = None
            self._psnrs[packet.number] = packet.psnr[0]
            self._packets.append(packet)

    def _know(self, end: int, *, scored: bool) -> None:
        """Take the frames up to `end` that were not yet as one stretch."""
        if scored:
            self._score(end)
        first = sum(stretch.frames for stretch in self._stretches)
        self._stretches.append(Stretch(end - first, float(np.mean(self._crfs[first:end])), 0.0))
        self._stretches = self._with_figures()

    def _score(self, end: int) -> None:
        """Score the frames up to `end` that were not yet."""
        numbers = sorted(n for n in self._wanted if n < end and n not in self._scores)
        if not numbers:
            return
        source = [self._source[n + step] for n in numbers for step in (-1, 0, 1)]
        # How the reference moves counts; how the coded pictures do, does not.
        coded = [self._coded[n] for n in numbers for _ in range(3)]
        begin_s = cpu_s()
        scores = frame_scores(self._search.target.metric, range(1, len(source), 3), source, coded)
        self._score_cpu_s += cpu_s() - begin_s
        self._source = {n: frame for n, frame in self._source.items() if n >= end - 1}
        self._coded = {n: frame for n, frame in self._coded.items() if n >= end}
        self._scores |= zip(numbers, scores.tolist(), strict=True)

    def _with_figures(self) -> list[Stretch]:
        """The stretches with what all of their frames have; one that is not scored is like what was scored before it,
        but for its PSNR.
        """
        target, end, stretches = self._search.target, 0, []
        slope = per_db(target.figure, list(self._scores.values()), [self._psnrs[n] for n in self._scores])
        scored: list[int] = []
        for stretch in self._stretches:
            first, end = end, end + stretch.frames
            inside = [n for n in self._scores if first <= n < end]
            scored = inside or scored
            of_some, of_all_frames = (np.mean([self._psnrs[n] for n in each]) for each in (scored, range(first, end)))
            off = float(of_all_frames - of_some)
            off = off if inside else min(max(off, -_LARGEST_OFF), _LARGEST_OFF)
            value = pooled(np.array([self._scores[n] for n in scored]), target.pool)
            stretches.append(replace(stretch, figure=of_all(target.figure, value, off, slope)))
        return stretches
