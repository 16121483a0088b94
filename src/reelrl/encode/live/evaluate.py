"""Live coding against the encoder's own cbr: sets of clips x rates x buffers, everybody in the same run.

cqp at a few QPs ──► target rates of a clip ──► cbr and ours at those rates, for each buffer ──► LivePoints

A contestant is "cqp" (no rate is held), "cbr" (SVT-AV1's own, with a buffer of the same size), or who predicts bits
("rule", "learned", a file of `reel fit live`), with "+drop" or "+twice" behind it; "+qps" chooses QPs also where
drawn streams would be left to cbr.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.content.quality import mean_of_frame_psnr, psnr_of_mean_mse
from reelrl.encode.codecs.backends import capabilities
from reelrl.encode.codecs.whole_clip import encode_packets
from reelrl.encode.live.clips import TEST, open_live
from reelrl.encode.live.coding import BACKENDS, LivePlan, LiveStream, encode_live
from reelrl.encode.live.link import LiveViewer, Uplink
from reelrl.encode.live.own_cbr import own_cbr
from reelrl.encode.minigop.evaluation.encoder_modes import without_picture
from reelrl.errors import ConfigError
from reelrl.names import did_you_mean
from reelrl.parallel import executor
from reelrl.runs.progress import Progress
from reelrl.storage.cache import cached, json_of, key_of
from reelrl.storage.files import cache_dir

if TYPE_CHECKING:
    from reelrl.content.clip import Clip
    from reelrl.encode.codecs.settings import EncoderSettings
    from reelrl.encode.live.controller import LiveTuning

CQP, CBR = "cqp", "cbr"
OPTIONS = ("drop", "twice", "qps")
DEFAULT = {"svtav1": ("rule", "learned", "rule+drop", "rule+twice"), "aom": ("rule",)}
"""Who is compared where nobody else was asked for; the net knows SVT-AV1 alone."""

LEAST_KBPS = 1


@dataclass(frozen=True)
class LiveEvaluationPlan:
    """sets   of clips, by name
    qps       of the cqp encodes that the target rates of a clip come from
    buffers   in seconds
    backend   "svtav1", or "aom": libaom's real-time mode
    """

    sets: Mapping[str, Sequence[str]] | None = None
    qps: tuple[int, ...] = (28, 36, 44, 52)
    buffers: tuple[float, ...] = (0.5, 1.0)
    backend: str = "svtav1"
    preset: int | None = None

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise ConfigError(f"unknown backend {self.backend!r}{did_you_mean(self.backend, BACKENDS)}")

    @property
    def encoder(self) -> EncoderSettings:
        settings = BACKENDS[self.backend][0]
        return settings if self.preset is None else replace(settings, preset=self.preset)

    @property
    def tuning(self) -> LiveTuning:
        return BACKENDS[self.backend][1]

    @property
    def clips(self) -> dict[str, str]:
        """Set of each clip."""
        return {name: kind for kind, names in (self.sets or TEST).items() for name in names}


@dataclass(frozen=True)
class LivePoint:
    """One clip by one contestant at one rate and buffer.

    late           frames whose last bit arrives later than the buffer allows; `dropped` ones are never sent
    quality        luma PSNR of what is shown: mean of frames, and of the mean error
    decision_us    median over frames; `decision_p99_us`; `look_us` is the median of the look before it; 0 for the
                   encoder's own
    """

    contestant: str
    set: str
    clip: str
    source: str
    buffer_s: float
    qp: int
    target_kbps: float
    kbps: float
    frames: int
    late: int
    dropped: int
    peak_s: float
    quality: dict[str, float]
    decision_us: float
    decision_p99_us: float
    look_us: float
    cpu_s: float
    qps: list[int]

    @property
    def error_percent(self) -> float:
        return 100 * (self.kbps / self.target_kbps - 1)

    def row(self) -> dict[str, Any]:
        """Flat, for a table."""
        record = {name: value for name, value in vars(self).items() if name not in ("quality", "qps")}
        return record | {"error_percent": self.error_percent} | self.quality


def encode_all(contestants: Sequence[str], plan: LiveEvaluationPlan, jobs: int = 1) -> list[LivePoint]:
    """Every contestant on every clip at every rate and buffer, cqp and cbr first."""
    everyone = [CQP, CBR, *(name for name in contestants if name not in (CQP, CBR))]
    for name in everyone:
        _check(name)
    tasks = [(name, kind, everyone, plan) for name, kind in plan.clips.items()]
    points: list[LivePoint] = []
    with Progress("encode", len(tasks), unit="clips") as progress, executor(jobs) as work:
        for batch in work.map(_clip_points, tasks, name=lambda task: task[0]):
            points += batch
            progress.update()
    return points


def _check(name: str) -> None:
    bits, *chosen = name.split("+")
    for option in chosen:
        if option not in OPTIONS or bits in (CQP, CBR):
            raise ConfigError(f"{name}: {option!r} is no option of it; rule and learned take {', '.join(OPTIONS)}")
    if bits not in (CQP, CBR):
        from reelrl.encode.live.coding import predictor

        predictor(bits, 64 * 64)


def _clip_points(task: tuple[str, str, Sequence[str], LiveEvaluationPlan]) -> list[LivePoint]:
    name, kind, everyone, plan = task
    clip = open_live(name).load()
    points = []
    for qp in plan.qps:
        # It has no target: what it takes is everybody's, and how late it is shows what holding a rate is worth.
        first = _point(CQP, kind, clip, qp, 0, plan.buffers[0], plan)
        target = max(LEAST_KBPS, round(first.kbps))
        for buffer_s in plan.buffers:
            points += [_point(each, kind, clip, qp, target, buffer_s, plan) for each in everyone]
    return points


def _point(
    name: str, kind: str, clip: Clip, qp: int, kbps: float, buffer_s: float, plan: LiveEvaluationPlan
) -> LivePoint:
    made_by = [asdict(plan.encoder), capabilities(plan.encoder.backend).version]
    facts = [name, clip.content_hash, qp, kbps, buffer_s, *made_by]
    path = cache_dir() / "live" / f"{key_of([*facts, str(clip.fps), _code()], 40)}.json"

    def make() -> LivePoint:
        return _made(name, kind, clip, qp, kbps, buffer_s, plan)

    return replace(cached(path, make, json_of(LivePoint)), set=kind, clip=clip.name)


def _made(
    name: str, kind: str, clip: Clip, qp: int, kbps: float, buffer_s: float, plan: LiveEvaluationPlan
) -> LivePoint:
    start_s = time.process_time()
    if name == CQP:
        stream = _cqp(clip, qp, plan)
    elif name == CBR:
        stream = _own(name, clip, qp, kbps, buffer_s, plan)
    else:
        bits, *options = name.split("+")
        chosen: dict[str, Any] = dict.fromkeys(options, True)
        asked = LivePlan(kbps, buffer_s, bits=bits, tuning=plan.tuning, **chosen)
        stream = encode_live(clip, asked, plan.encoder)
    cpu_s = time.process_time() - start_s
    spent = stream.bits / clip.duration_s / 1000
    viewer = _viewer(clip, stream, kbps or spent, buffer_s)
    pixels = clip.width * clip.height
    decisions = np.array(stream.decision_s or [0.0]) * 1e6
    return LivePoint(
        contestant=name,
        set=kind,
        clip=clip.name,
        source=clip.source,
        buffer_s=buffer_s,
        qp=qp,
        target_kbps=kbps or spent,
        kbps=spent,
        frames=clip.frame_count,
        late=viewer.late,
        dropped=stream.dropped,
        peak_s=max(delay or 0.0 for delay in viewer.delays_s),
        quality={
            "psnr_y": mean_of_frame_psnr(stream.sse_y, pixels),
            "psnr_y_of_mean": psnr_of_mean_mse(stream.sse_y, pixels),
        },
        decision_us=float(np.median(decisions)),
        decision_p99_us=float(np.quantile(decisions, 0.99)),
        look_us=float(np.median(stream.look_s or [0.0]) * 1e6),
        cpu_s=cpu_s,
        qps=[packet.qp if packet else 0 for packet in stream.packets],
    )


_last_cqp: dict[tuple[str, int, str, int | None], LiveStream] = {}


def _cqp(clip: Clip, qp: int, plan: LiveEvaluationPlan) -> LiveStream:
    """The encoder at a fixed QP: the same whatever the buffer, so the last one is kept."""
    key = (clip.content_hash, qp, plan.backend, plan.preset)
    if key not in _last_cqp:
        _last_cqp.clear()
        _last_cqp[key] = _own(CQP, clip, qp, 0, 1.0, plan)
    return _last_cqp[key]


def _own(name: str, clip: Clip, qp: int, kbps: float, buffer_s: float, plan: LiveEvaluationPlan) -> LiveStream:
    """The encoder by itself, in the same structure."""
    # With pictures: without them it measures those that nobody refers to before their last filters.
    own = replace(plan.encoder, picture_qp=False, hierarchical_levels=plan.tuning.levels, recon=True)
    own = own_cbr(own, plan.tuning.levels, kbps, buffer_s) if name == CBR else replace(own, qp=qp)
    packets = [without_picture(packet) for packet in encode_packets(clip, own)]
    errors = [packet.luma_sse_in_8_bits for packet in packets]
    return LiveStream(LiveViewer(Uplink.constant(1.0), float(clip.fps), buffer_s), list(packets), errors)


def _viewer(clip: Clip, stream: LiveStream, kbps: float, buffer_s: float) -> LiveViewer:
    """The stream over a link of constant rate."""
    viewer = LiveViewer(Uplink.constant(kbps), float(clip.fps), buffer_s)
    for frame, packet in zip(clip, stream.packets, strict=True):
        viewer.is_sent(8 * packet.size if packet else None, frame)
    return viewer


_RULE = ("bits", "controller", "frame_look", "learned_bits", "qps", "standing", "structure")
_CODING = ("coding", "drawn", "link", "own_cbr")


@cache
def _code() -> str:
    """What decisions are made by: another version of it is another contestant."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for name in (*_RULE, *_CODING):
        digest.update((here / f"{name}.py").read_bytes())
    for file in sorted((here / "weights").glob("*.safetensors")):
        digest.update(file.read_bytes())
    return digest.hexdigest()
