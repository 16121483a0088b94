"""Encodes of scenes that are never made twice: bytes, and scores of a few frames, as array files in the cache.

An encode is named by all that its bytes depend on, and by the frames that are scored. A training that was killed goes
on with what it had measured.
"""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reelrl.encode.codecs.backends import capabilities
from reelrl.encode.codecs.whole_clip import encode_packets
from reelrl.encode.target.scores import METRICS, frame_scores
from reelrl.storage.cache import arrays_of, cached, key_of
from reelrl.storage.files import cache_dir

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.content.clip import Clip
    from reelrl.encode.codecs.settings import EncoderSettings

VERSION = 1
"""Raise it when any figure changes: what is cached under another version is not used."""

EVERY = 3  # of a scene's frames is scored: coprime to the pyramid of a mini-GOP, so that every layer has its share


@dataclass(frozen=True)
class MeasuredEncode:
    """One scene at one CRF.

    frame_bytes   of each temporal unit
    numbers       the frames that were scored
    vmaf, psnr, ssim, xpsnr   of those frames; empty where it was not asked for
    encode_cpu_s  what coding took
    score_cpu_s   what scoring took, in the order of `METRICS`
    """

    frame_bytes: NDArray[np.int64]
    numbers: NDArray[np.int64]
    encode_cpu_s: float
    score_cpu_s: NDArray[np.float64]
    vmaf: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    psnr: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    ssim: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    xpsnr: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    @property
    def size_bytes(self) -> int:
        return int(self.frame_bytes.sum())

    def scores(self, metric: str) -> NDArray[np.float64]:
        found: NDArray[np.float64] = getattr(self, metric)
        return found


def at_crf(settings: EncoderSettings, crf: float) -> EncoderSettings:
    """The same settings at this CRF, in quarter steps."""
    whole, quarters = divmod(round(4 * crf), 4)
    return replace(settings, qp=whole, crf_quarters=quarters)


def thirds(frames: int) -> tuple[int, ...]:
    """Every third frame that has a neighbour on both sides; of a scene of one or two, none has."""
    return tuple(range(1, frames - 1, EVERY))


def measured(
    stretches: Sequence[Clip], settings: EncoderSettings, crf: float, numbers: Sequence[int], metrics: Sequence[str]
) -> MeasuredEncode:
    """Stretches of a scene at a CRF, each a stream of its own, from disk if they were made before.

    Of `numbers`, which count through all stretches, the scores.
    """
    settings = replace(at_crf(settings.for_clip(stretches[0]), crf), recon=True, psnr=False, ssim=False)
    path = cache_dir() / "target" / f"{_key(stretches, settings, numbers)}.npz"
    return cached(
        path,
        lambda: fresh(stretches, settings, numbers, metrics),
        arrays_of(MeasuredEncode),
        lambda known: all(len(known.scores(metric)) == len(numbers) for metric in metrics),
    )


def fresh(
    stretches: Sequence[Clip], settings: EncoderSettings, numbers: Sequence[int], metrics: Sequence[str]
) -> MeasuredEncode:
    """The same, made anew."""
    source = [frame for stretch in stretches for frame in stretch]
    begin_s = cpu_s()
    packets = [packet for stretch in stretches for packet in encode_packets(stretch, settings)]
    encode_cpu_s = cpu_s() - begin_s
    coded = [packet.recon for packet in packets if packet.recon is not None]
    scores, score_cpu_s = {}, np.zeros(len(METRICS))
    for metric in metrics:
        begin_s = cpu_s()
        scores[metric] = frame_scores(metric, numbers, source, coded)
        score_cpu_s[METRICS.index(metric)] = cpu_s() - begin_s
    return MeasuredEncode(
        frame_bytes=np.array([packet.size for packet in packets], np.int64),
        numbers=np.array(numbers, np.int64),
        encode_cpu_s=encode_cpu_s,
        score_cpu_s=score_cpu_s,
        **scores,
    )


def cpu_s() -> float:
    """CPU time of this process and of the programs that it ran."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _key(stretches: Sequence[Clip], settings: EncoderSettings, numbers: Sequence[int]) -> str:
    able = capabilities(settings.backend)
    pictures = [stretch.content_hash for stretch in stretches]
    return key_of([VERSION, pictures, able.version, str(replace(settings, deadline_s=60.0)), list(numbers)])
