"""A first guess: at which QP does a clip take a bitrate?

Our analysis of the source alone is not enough: it cannot tell noise that is coded from noise that is quantised away.
So a few mini-GOPs are encoded as samples with a fast preset, once per clip; in low delay only the first.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from reelrl.encode.codecs.backends import capabilities
from reelrl.encode.codecs.session import EncoderSession
from reelrl.encode.minigop.source.plan import SCENE_CUT, spans_of
from reelrl.storage.cache import cached, json_of, key_of
from reelrl.storage.files import cache_dir

if TYPE_CHECKING:
    from reelrl.content.clip import Clip
    from reelrl.encode.codecs.settings import EncoderSettings

SAMPLES = 3  # mini-GOPs, spread over the clip
_PRESET = 10
_QPS = (32, 48)
_LOWEST, _HIGHEST = 10, 58  # so that a delta finds room on either side
_FINEST_FIRST, _LEAST_OCTAVES = 18, 0.03
# Low delay: what the first mini-GOP may fill of the bucket, and the buckets over which its QP should hold the bitrate.
_BUCKET_SHARE, _BUCKETS = 0.5, 4


@dataclass(frozen=True)
class SampleEncode:
    """What a clip takes at both QPs."""

    bits: list[float]
    duration_s: float
    cpu_s: float

    @property
    def octaves_per_qp(self) -> float:
        """What a QP step takes from the bits: about 0.1 of most clips, half of flat graphics, more of grain."""
        return _octaves(self.bits)

    def qp_for(self, kbps: float, buffer_s: float) -> int:
        """QP at which the clip takes about `kbps`."""
        del buffer_s  # the clip's bits are all that counts
        return near(_QPS[0] + math.log2(self.bits[0] / (kbps * 1000 * self.duration_s)) / self.octaves_per_qp)


@dataclass(frozen=True)
class FirstSample:
    """What the first mini-GOP of a clip takes in low delay: its key frame, and a frame after it, at both QPs."""

    key_bits: list[float]
    inter_bits: list[float]
    inter_frames: int
    fps: float
    duration_s: float
    cpu_s: float

    def qp_for(self, kbps: float, buffer_s: float) -> int:
        """Finest QP at which the first mini-GOP fits the bucket, and the first seconds the bitrate.

        An endless buffer counts the whole clip's bits.
        """
        horizon_s = min(_BUCKETS * buffer_s, self.duration_s)
        first_s = (1 + self.inter_frames) / self.fps + _BUCKET_SHARE * buffer_s
        for qp in range(_FINEST_FIRST, _HIGHEST):
            key, inter = _between(self.key_bits, qp), _between(self.inter_bits, qp)
            fits = key + self.inter_frames * inter <= kbps * 1000 * first_s
            if fits and key + (horizon_s * self.fps - 1) * inter <= kbps * 1000 * horizon_s:
                return qp
        return _HIGHEST


def _between(bits: list[float], qp: float) -> float:
    """Bits at a QP, on the line through both samples in octaves."""
    return bits[0] * math.exp2(-_octaves(bits) * (qp - _QPS[0]))


def _octaves(bits: list[float]) -> float:
    """What a QP step takes from the bits."""
    fine, coarse = _QPS
    return max(math.log2(bits[0] / bits[1]) / (coarse - fine), _LEAST_OCTAVES)


def near(qp: float) -> int:
    """The nearest QP to start at."""
    return min(max(round(qp), _LOWEST), _HIGHEST)


def starting_qp(clip: Clip, settings: EncoderSettings, kbps: float, buffer_s: float = 1.0) -> int:
    """QP at which the clip takes about `kbps`; see `SampleEncode.qp_for`."""
    return sample_encode(clip, settings).qp_for(kbps, buffer_s)


def sample_encode(clip: Clip, settings: EncoderSettings) -> SampleEncode | FirstSample:
    """The clip's sample encodes, from disk where the same encoder had it before."""
    fast = replace(
        settings.for_clip(clip),
        preset=max(settings.preset, _PRESET), picture_qp=False, recon=False, psnr=False, ssim=False,
    )  # fmt: skip
    facts = [
        4, clip.content_hash, fast.structure, fast.levels, fast.keyint, fast.preset, fast.tune, fast.options,
        str(clip.fps), capabilities(fast.backend).version,
    ]  # fmt: skip
    path = cache_dir() / "tastes" / f"{key_of(facts)}.json"  # the folder's former name, so that results are found again
    if fast.low_delay:
        return cached(path, lambda: _first_sample(clip, fast), json_of(FirstSample))
    return cached(path, lambda: _spread_samples(clip, fast), json_of(SampleEncode))


def _spread_samples(clip: Clip, settings: EncoderSettings) -> SampleEncode:
    started = time.process_time()
    bits = [_bits(clip, replace(settings, qp=qp)) for qp in _QPS]
    return SampleEncode(bits, clip.duration_s, time.process_time() - started)


def _first_sample(clip: Clip, settings: EncoderSettings) -> FirstSample:
    started = time.process_time()
    count = min(2**settings.levels + 1, clip.frame_count)
    sampled = [_sizes(clip, replace(settings, qp=qp), 0, count) for qp in _QPS]
    after = max(count - 1, 1)
    return FirstSample(
        key_bits=[8 * sizes[0] for sizes in sampled],
        inter_bits=[8 * max(sum(sizes[1:]), 1) / after for sizes in sampled],
        inter_frames=count - 1, fps=float(clip.fps), duration_s=clip.duration_s,
        cpu_s=time.process_time() - started,
    )  # fmt: skip


def _bits(clip: Clip, settings: EncoderSettings) -> float:
    """Bits of the clip, judged from a few of its mini-GOPs, each behind a key frame of its own."""
    from reelrl.encode.features import analyse, clip_features

    size: int = 2**settings.levels
    last = max(clip.frame_count - size - 1, 0)
    places = sorted({round(last * place / (SAMPLES - 1)) for place in range(SAMPLES)})
    sampled = [_sizes(clip, settings, place, size + 1) for place in places]
    key = sum(sizes[0] for sizes in sampled) / len(sampled)
    frames = sum(len(sizes) - 1 for sizes in sampled)
    inter = sum(sum(sizes[1:]) for sizes in sampled) / max(frames, 1)
    # A scene cut costs about a key frame.
    cuts = int((analyse(clip_features(clip), clip.width, clip.height).scene_cut > SCENE_CUT).sum())
    keys = len({span.gop for span in spans_of(clip.frame_count, settings)}) + cuts
    return 8 * (keys * key + (clip.frame_count - keys) * inter)


def _sizes(clip: Clip, settings: EncoderSettings, first: int, count: int) -> list[int]:
    with EncoderSession(settings) as session:
        return [packet.size for packet in session.encode(islice(clip.frames(first), count))]
