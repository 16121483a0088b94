"""A first guess: at which QP does a clip take a bitrate?

Our analysis of the source alone is off by seven QP steps (rms): it cannot tell noise that is coded from noise that is
quantised away. So a few mini-GOPs are tasted with a fast preset, once per clip; in low delay, only its first frame.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING

from reelrl.encode import backends
from reelrl.encode.features import analyse, clip_features
from reelrl.encode.minigop_plan import spans_of
from reelrl.encode.session import EncoderSession
from reelrl.files import cache_dir
from reelrl.kept import keep, kept

if TYPE_CHECKING:
    from reelrl.content.clip import Clip
    from reelrl.encode.settings import EncoderSettings

TASTES = 3  # mini-GOPs, spread over the clip
_PRESET = 10
_CUT = 0.7  # of `FrameAnalysis.scene_cut`
_QP = 40
_LOWEST, _HIGHEST = 10, 58  # so that a delta finds room on either side
OCTAVES_PER_CRF = 0.078
"""What one step of crf takes from the bits, in octaves: less than a QP step on all layers."""
_OCTAVES_PER_QP = {False: OCTAVES_PER_CRF, True: 0.11}
# Low delay: a mini-GOP of key frame and nine more costs about so many key frames; part of the bucket is for it.
_FIRST_MINIGOP, _BUCKET_SHARE = 1.8, 0.5


@dataclass(frozen=True)
class Taste:
    """What the clip (random access), or its first frame (low delay), takes at QP 40."""

    bits: float
    duration_s: float
    minigop_s: float
    low_delay: bool
    cpu_s: float

    def qp_for(self, kbps: float, buffer_s: float) -> int:
        """QP at which the clip takes about `kbps`; in low delay, at which its first mini-GOP fits the bucket."""
        took, wanted = self.bits, kbps * 1000 * self.duration_s
        if self.low_delay:
            took, wanted = took * _FIRST_MINIGOP, kbps * 1000 * (self.minigop_s + _BUCKET_SHARE * buffer_s)
        return near(_QP + math.log2(took / wanted) / _OCTAVES_PER_QP[self.low_delay])


def near(qp: float) -> int:
    """The nearest QP to start at."""
    return min(max(round(qp), _LOWEST), _HIGHEST)


def starting_qp(clip: Clip, settings: EncoderSettings, kbps: float, buffer_s: float = 1.0) -> int:
    """QP at which the clip takes about `kbps`; see `Taste.qp_for`."""
    return taste(clip, settings).qp_for(kbps, buffer_s)


def taste(clip: Clip, settings: EncoderSettings) -> Taste:
    """The clip's taste, from disk where the same encoder had it before."""
    fast = replace(
        settings.for_clip(clip),
        qp=_QP, preset=max(settings.preset, _PRESET), picture_qp=False, recon=False, psnr=False, ssim=False,
    )  # fmt: skip
    path = cache_dir() / "tastes" / f"{_key(clip, fast)}.json"
    body = kept(path)
    if body is not None:
        return Taste(**json.loads(body))
    started = time.process_time()
    bits = 8.0 * _sizes(clip, fast, 0, 1)[0] if fast.low_delay else _bits(clip, fast)
    minigop_s = float(2**fast.levels / Fraction(clip.fps))
    made = Taste(bits, clip.duration_s, minigop_s, fast.low_delay, time.process_time() - started)
    keep(path, json.dumps(asdict(made)).encode())
    return made


def _bits(clip: Clip, settings: EncoderSettings) -> float:
    """Bits of the clip, judged from a few of its mini-GOPs, each behind a key frame of its own."""
    size: int = 2**settings.levels
    last = max(clip.frame_count - size - 1, 0)
    places = sorted({round(last * place / (TASTES - 1)) for place in range(TASTES)})
    tasted = [_sizes(clip, settings, place, size + 1) for place in places]
    key = sum(sizes[0] for sizes in tasted) / len(tasted)
    frames = sum(len(sizes) - 1 for sizes in tasted)
    inter = sum(sum(sizes[1:]) for sizes in tasted) / max(frames, 1)
    # A scene cut costs about a key frame.
    cuts = int((analyse(clip_features(clip), clip.width, clip.height).scene_cut > _CUT).sum())
    keys = len({span.gop for span in spans_of(clip.frame_count, settings)}) + cuts
    return 8 * (keys * key + (clip.frame_count - keys) * inter)


def _sizes(clip: Clip, settings: EncoderSettings, first: int, count: int) -> list[int]:
    with EncoderSession(settings) as session:
        packets = []
        for frame in islice(clip.frames(first), count):
            session.send(frame)
            packets += session.receive()
        packets += session.flush()
    return [packet.size for packet in packets]


def _key(clip: Clip, settings: EncoderSettings) -> str:
    facts = [
        2, clip.content_hash, settings.structure, settings.levels, settings.keyint, settings.preset, settings.tune,
        settings.options, str(clip.fps), backends.probe(settings.backend).version,
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]
