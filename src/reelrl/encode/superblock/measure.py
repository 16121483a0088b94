"""One encode as a point: what it cost and how good it is. No encode is made twice.

clip, settings, maps ──► measure ──► Measured(size_bytes, quality by name)     cached on disk
no-map encodes around a QP ──► LocalCurve ──► percent(measured)                bits at equal quality
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from reelrl.content.quality import vmaf
from reelrl.encode.clip_choice import refuse_10_bit
from reelrl.encode.codecs.backends import capabilities
from reelrl.encode.codecs.settings import key_facts
from reelrl.encode.codecs.whole_clip import encode_clip
from reelrl.encode.superblock.weighting import WEIGHINGS, WeightMaps, weigh_clip, weighted_psnr
from reelrl.errors import ConfigError
from reelrl.names import did_you_mean
from reelrl.storage.cache import cached, json_of, key_of
from reelrl.storage.files import cache_dir

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reelrl.content.clip import Clip
    from reelrl.content.frame import Frame
    from reelrl.encode.codecs.settings import EncoderSettings
    from reelrl.encode.codecs.whole_clip import Decision, Encoded

    Decide = Callable[[int, Frame], Decision]

Maps = Sequence["NDArray[np.int32] | None"]
"""Offsets for each frame; None sends no map with that frame."""

METRICS = ("psnr_y", "psnr_y_of_mean", "ssim_db", "vmaf", *(f"weighted:{name}" for name in WEIGHINGS))
CHEAP = ("psnr_y", "psnr_y_of_mean", "ssim_db", "weighted:moving", "weighted:centre", "weighted:detail")
"""What every evaluation shows; others are asked for."""

VERSION = 1
"""Raise it when any figure changes: what is cached under another version is not used."""

_REMEMBERED = 24
_weights: dict[tuple[str, str], tuple[WeightMaps, str]] = {}
_CURVE_STEPS = (-6, -4, -2, 0, 2, 4, 6)


@dataclass(frozen=True)
class Measured:
    """size_bytes  of the whole stream
    quality        by the names in METRICS; dB, but VMAF from 0 to 100
    mean_offset    average of all offsets, in QP steps; frames without a map count as zero
    mapped         share of the frames that were sent with a map
    seconds        CPU time that it took, decisions included, when it was encoded
    """

    size_bytes: int
    kbps: float
    quality: dict[str, float]
    mean_offset: float
    mapped: float
    seconds: float


def measure(
    clip: Clip,
    settings: EncoderSettings,
    maps: Maps | None = None,
    *,
    metrics: Sequence[str] = CHEAP,
    qps: Sequence[int] | None = None,
) -> Measured:
    """The clip encoded with a map for each frame, or with none at all; `qps` are those of the frames."""
    for name in metrics:
        if name not in METRICS:
            raise ConfigError(f"unknown metric {name!r}{did_you_mean(name, METRICS)}")
    refuse_10_bit(clip, "an evaluation of superblock maps")
    if maps is not None and len(maps) != clip.frame_count:
        raise ConfigError(f"{len(maps)} maps for {clip.frame_count} frames of {clip.name}; give one for each")
    if qps is not None and len(qps) != clip.frame_count:
        raise ConfigError(f"{len(qps)} QPs for {clip.frame_count} frames of {clip.name}; give one for each")
    path = cache_dir() / "encodes" / f"{_key(clip, settings, maps, metrics, qps)}.json"
    return cached(path, lambda: _measured(clip, settings, metrics, _decisions(maps, qps)), json_of(Measured))


def static(offsets: NDArray[np.int32], frames: int) -> Maps:
    """The same map for every frame; none at all if it is zero, which the encoder would code alike."""
    return [offsets if offsets.any() else None] * frames


@dataclass(frozen=True)
class LocalCurve:
    """How rate and quality trade around one QP without maps: log(bytes) as a parabola of quality.

    Real curves are rough: one step of QP moves them by a percent to either side of the parabola (`roughness`, in
    percent). Gains of that size at one QP on one clip are luck, found more often the longer one searches.
    """

    metric: str
    coefficients: tuple[float, float, float]
    roughness: float

    @classmethod
    def around(cls, clip: Clip, settings: EncoderSettings, metrics: Sequence[str]) -> dict[str, LocalCurve]:
        """Curves of a clip for each metric, from seven encodes at most."""
        qps = [settings.qp + step for step in _CURVE_STEPS if 1 <= settings.qp + step <= 63]
        points = [measure(clip, replace(settings, qp=qp), metrics=metrics) for qp in qps]
        return {name: cls.through(name, points) for name in metrics}

    @classmethod
    def through(cls, metric: str, points: Sequence[Measured]) -> LocalCurve:
        quality = np.array([point.quality[metric] for point in points])
        log_bytes = np.log([point.size_bytes for point in points])
        a, b, c = (float(value) for value in np.polyfit(quality, log_bytes, 2))
        off = log_bytes - np.polyval([a, b, c], quality)
        return cls(metric, (a, b, c), float(100 * np.sqrt(np.mean(off**2))))

    def percent(self, point: Measured) -> float:
        """Bytes that an encode spends more than no maps would at its quality; below zero is a saving."""
        expected = float(np.polyval(self.coefficients, point.quality[self.metric]))
        return 100 * math.expm1(math.log(point.size_bytes) - expected)


def _decisions(maps: Maps | None, qps: Sequence[int] | None) -> Decide | None:
    """Decisions that were made beforehand; None where there are none."""
    if maps is None and qps is None:
        return None

    def decide(number: int, frame: Frame) -> Decision:  # noqa: ARG001 - the protocol's
        decision: Decision = {"offsets": maps[number] if maps else None}
        return decision if qps is None else {**decision, "qp": qps[number]}

    return decide


def _measured(clip: Clip, settings: EncoderSettings, metrics: Sequence[str], decide: Decide | None) -> Measured:
    sent: list[float] = []

    def decision_of(number: int, frame: Frame) -> Decision:
        decision: Decision = decide(number, frame) if decide else {}
        if (offsets := decision.get("offsets")) is not None:
            sent.append(float(np.asarray(offsets, np.float64).mean()))
        return decision

    start_s = time.process_time()
    needs_recon = any(name == "vmaf" or name.startswith("weighted:") for name in metrics)
    wanted = replace(settings, ssim="ssim_db" in metrics, recon=needs_recon)
    coded = encode_clip(clip, wanted, decision_of if decide else None)
    seconds = time.process_time() - start_s
    return Measured(
        size_bytes=coded.size_bytes,
        kbps=coded.kbps,
        quality={name: _quality(name, coded) for name in metrics},
        mean_offset=sum(sent) / clip.frame_count,
        mapped=len(sent) / clip.frame_count,
        seconds=seconds,
    )


def _quality(name: str, coded: Encoded) -> float:
    if name == "psnr_y":
        return coded.psnr_y
    if name == "psnr_y_of_mean":
        return coded.psnr_y_of_mean
    if name == "ssim_db":
        mean = sum(packet.ssim[0] for packet in coded.packets if packet.ssim) / len(coded.packets)
        return -10 * math.log10(max(1 - mean, 1e-10))
    recon = [packet.recon for packet in coded.packets if packet.recon]
    if name == "vmaf":
        scores = vmaf(coded.clip, recon)
        return sum(scores) / len(scores)
    return _weighted(name.removeprefix("weighted:"), coded.clip, recon)


def _weighted(name: str, clip: Clip, recon: Sequence[Frame]) -> float:
    """Mean over frames of luma PSNR under a named weight map."""
    maps = weights_of(clip, name)
    pairs = enumerate(zip(clip, recon, strict=True))
    scores = [weighted_psnr(source, coded, maps.frame(number)) for number, (source, coded) in pairs]
    return sum(scores) / len(scores)


def weights_of(clip: Clip, name: str) -> WeightMaps:
    """Named weights of a clip; the last few are remembered, because searches encode one clip over and over."""
    return _weighed(clip, name)[0]


def _weighed(clip: Clip, name: str) -> tuple[WeightMaps, str]:
    """Weights and their digest."""
    key = (clip.content_hash, name)
    if key not in _weights:
        while len(_weights) >= _REMEMBERED:
            del _weights[next(iter(_weights))]
        made = weigh_clip(clip, name)
        _weights[key] = made, hashlib.sha256(b"".join(picture.tobytes() for picture in made.maps)).hexdigest()
    return _weights[key]


def _key(
    clip: Clip, settings: EncoderSettings, maps: Maps | None, metrics: Sequence[str], qps: Sequence[int] | None
) -> str:
    """Whatever the figures depend on, as one name. How long to wait for the encoder is no part of it."""
    decided = hashlib.sha256(b"" if qps is None else f"qps {' '.join(map(str, qps))}".encode())
    for offsets in maps or ():
        decided.update(b"none" if offsets is None else np.ascontiguousarray(offsets, np.int32).tobytes())
    chosen = key_facts(asdict(settings.for_clip(clip)), ("deadline_s", "recon", "ssim"))
    weighed = [_weighed(clip, name.removeprefix("weighted:"))[1] for name in sorted(metrics) if ":" in name]
    seen = [clip.content_hash, weighed, capabilities(settings.backend).version]
    facts = [VERSION, *seen, chosen, sorted(metrics), maps is not None, decided.hexdigest()]
    return key_of(facts, 40)
