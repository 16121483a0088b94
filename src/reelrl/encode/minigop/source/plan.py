"""Where the mini-GOPs of a clip lie, how their pictures look, and what is known of each before it is coded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reelrl.encode.minigop.protocols import PlannedMiniGop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.content.clip import Clip
    from reelrl.encode.codecs.settings import EncoderSettings
    from reelrl.encode.features import FrameAnalysis
    from reelrl.encode.minigop.source.probe import Probe


SCENE_CUT = 0.7
"""Of `FrameAnalysis.scene_cut`, from which on the previous frame says nothing about a frame."""


class Span(NamedTuple):
    """The frames of one mini-GOP. A key frame belongs to the mini-GOP that follows it."""

    mg: int
    gop: int
    first: int
    frames: int

    @property
    def end(self) -> int:
        """The frame after the last one."""
        return self.first + self.frames


@dataclass(frozen=True)
class ClipPlan:
    """The mini-GOPs of a clip with the QPs that the encoder itself would give their pictures.

    layers       temporal layer of each picture, by mini-GOP
    probe_cpu_s  what the probe took when it was made; 0 without one
    """

    spans: tuple[Span, ...]
    layers: tuple[tuple[int, ...], ...]
    minigops: tuple[PlannedMiniGop, ...]
    probe_cpu_s: float

    @property
    def qp(self) -> int:
        """Of the probe, or of low delay's first mini-GOP."""
        return self.minigops[0].base_qp

    @property
    def bits(self) -> int:
        """What the probe spent; 0 without one."""
        return sum(planned.probe_bits or 0 for planned in self.minigops)

    def scaled(self, ratio: float) -> ClipPlan:
        """The plan of an encode that takes so much of the probe's bits at the probe's QPs."""
        minigops = tuple(
            replace(planned, probe_bits=round(ratio * (planned.probe_bits or 0))) for planned in self.minigops
        )
        return replace(self, minigops=minigops)


def probed_plan(spans: Sequence[Span], probed: Probe, qp: int, features: Sequence[dict[str, float]]) -> ClipPlan:
    """Every mini-GOP with what the encoder alone gave its pictures at this QP, and took for them."""
    minigops = []
    for span, described_by in zip(spans, features, strict=True):
        part = slice(span.first, span.end)
        minigops.append(
            PlannedMiniGop(
                mg=span.mg,
                gop=span.gop,
                first_frame=span.first,
                frames=span.frames,
                base_qp=qp,
                layer_qps=tuple(probed.qps[part].tolist()),
                features=described_by,
                probe_bits=int(probed.bits[part].sum()),
                probe_sse=int(probed.sse[part].sum()),
            )
        )
    layers = tuple(tuple(probed.layers[span.first : span.end].tolist()) for span in spans)
    return ClipPlan(tuple(spans), layers, tuple(minigops), probed.cpu_s)


def spans_of(frame_count: int, settings: EncoderSettings) -> tuple[Span, ...]:
    """All mini-GOPs in display order; the last one before a key frame, or the end, may be short."""
    size, keyint = 2**settings.levels, settings.keyint if settings.keyint > 0 else frame_count
    spans: list[Span] = []
    for gop, key in enumerate(range(0, frame_count, keyint)):
        end, first = min(key + keyint, frame_count), key
        while first < end:
            frames = min(size + (first == key), end - first)
            spans.append(Span(len(spans), gop, first, frames))
            first += frames
    return tuple(spans)


def layers_of(span: Span, spans: Sequence[Span], levels: int) -> tuple[int, ...]:
    """Temporal layer of each picture of a whole mini-GOP; 0 is what the others are predicted from."""
    starts = span.mg == 0 or spans[span.mg - 1].gop != span.gop
    places = range(0 if starts else 1, span.frames + (0 if starts else 1))
    return tuple(_layer(place, levels) for place in places)


def _layer(place: int, levels: int) -> int:
    """Layer of a picture by its place after the last base picture: odd places are leaves."""
    if place == 0:
        return 0
    twos = (place & -place).bit_length() - 1
    return max(levels - twos, 0)


def features_of(spans: Sequence[Span], clip: Clip) -> list[dict[str, float]]:
    """Complexity of each mini-GOP by name, from our own analysis of the source."""
    # Here: numba takes a third of a second to load, and parts of a video are planned without features.
    from reelrl.encode.features import analyse, clip_features

    analysis = analyse(clip_features(clip), clip.width, clip.height)
    return [described(analysis, slice(span.first, span.end)) for span in spans]


def described(analysis: FrameAnalysis, part: slice) -> dict[str, float]:
    """The frames of `part` in a few numbers.

    intra, inter, motion  means over the frames, in levels and pixels
    inter_last            inter energy of the last quarter: what the next mini-GOP will lean on
    scene_cut             the largest of the frames', 0 to 1
    cut_frames            frames from the last scene cut on; 0 without one
    cut_intra, cut_inter  where there is a cut: energies of these frames, the first of which has no predecessor
    """
    intra, inter, cuts = analysis.intra_energy[part], analysis.inter_energy[part], analysis.scene_cut[part]
    features = {
        "intra": float(intra.mean()),
        "inter": float(inter.mean()),
        "motion": float(analysis.motion[part].mean()),
        "inter_last": float(inter[-max(len(inter) // 4, 1) :].mean()),
        "scene_cut": float(cuts.max()),
        "cut_frames": 0.0,
    }
    if (at := np.flatnonzero(cuts > SCENE_CUT)).size:
        new = slice(int(at[-1]), None)
        features["cut_frames"] = float(len(intra[new]))
        features["cut_intra"] = float(intra[new].mean())
        features["cut_inter"] = float(inter[new][1:].mean()) if len(intra[new]) > 1 else 0.0
    return features
