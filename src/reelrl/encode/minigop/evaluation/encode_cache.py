"""Encodes that are never made twice: what each frame of a stream cost and how good it is, cached on disk.

An encode is named by all that its bytes depend on: the clip's pixels, the settings, the encoder's build, and the
decisions (QPs, or whoever makes them). Streams themselves are not cached; their hash is, so that a replay can be
checked. A job that was killed goes on with what it had finished.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from reelrl.content.quality import mean_of_frame_psnr, psnr_of_mean_mse, vmaf
from reelrl.encode.codecs.backends import capabilities
from reelrl.encode.codecs.decoding import decoded
from reelrl.encode.codecs.packet import Packet
from reelrl.encode.codecs.settings import key_facts
from reelrl.storage.cache import cached, json_of, key_of
from reelrl.storage.files import cache_dir

if TYPE_CHECKING:
    from collections.abc import Callable

    from reelrl.content.clip import Clip
    from reelrl.encode.codecs.settings import EncoderSettings

VERSION = 2
"""Raise it when any figure changes: what is cached under another version is not used."""

_UNSEEN = ("deadline_s", "recon", "psnr", "ssim")  # settings that change no byte of the stream


@dataclass(frozen=True)
class Encode:
    """Frames of one stream in display order.

    frame_bytes   of each temporal unit
    sse_y, ssim_y luma against the source; errors in 8-bit levels
    qps           of each picture
    deltas        what a controller asked for, a mini-GOP each; empty where there was none
    seconds       CPU time of every pass that was made for it, decisions included
    passes        how often the clip was encoded for it, first and probe passes included
    stream_hash   SHA-256 of all bytes
    vmaf          mean of frames, or None where it was not asked for
    """

    width: int
    height: int
    duration_s: float
    frame_bytes: list[int]
    sse_y: list[int]
    ssim_y: list[float]
    qps: list[int]
    deltas: list[float]
    seconds: float
    passes: int
    stream_hash: str
    vmaf: float | None = None

    @property
    def size_bytes(self) -> int:
        return sum(self.frame_bytes)

    @property
    def kbps(self) -> float:
        return self.size_bytes * 8 / self.duration_s / 1000

    @property
    def quality(self) -> dict[str, float]:
        """By metric: dB, but VMAF from 0 to 100."""
        pixels = self.width * self.height
        ssim = sum(self.ssim_y) / len(self.ssim_y)
        scores = {
            "psnr_y": mean_of_frame_psnr(self.sse_y, pixels),
            "psnr_y_of_mean": psnr_of_mean_mse(self.sse_y, pixels),
            "ssim_db": -10 * math.log10(max(1 - ssim, 1e-10)),
        }
        return scores if self.vmaf is None else scores | {"vmaf": self.vmaf}


@dataclass(frozen=True)
class Stream:
    """A fresh encode, before it is measured: packets with errors and SSIM, and what making them took."""

    packets: Sequence[Packet]
    seconds: float
    passes: int = 1
    deltas: Sequence[float] = ()


def cached_encode(
    clip: Clip,
    settings: EncoderSettings,
    decisions: Any,
    make: Callable[[], Stream],
    *,
    with_vmaf: bool = False,
) -> Encode:
    """The encode that `make()` would give, from disk if it was made before.

    `decisions` is plain data that says what the stream depends on besides clip, settings and encoder build.
    """
    path = cache_dir() / "minigop" / f"{encode_key(clip, settings, decisions)}.json"
    encode = cached(
        path,
        lambda: measured(clip, make(), with_vmaf=with_vmaf),
        json_of(Encode),
        lambda known: known.vmaf is not None or not with_vmaf,
    )
    return encode if with_vmaf else replace(encode, vmaf=None)  # or else a table would have it for some encodes only


def encode_key(clip: Clip, settings: EncoderSettings, decisions: Any) -> str:
    """Whatever the stream depends on, as one name."""
    chosen = key_facts(asdict(settings.for_clip(clip)), _UNSEEN)
    return key_of([VERSION, clip.content_hash, chosen, capabilities(settings.backend).version, decisions], digits=40)


def measured(clip: Clip, stream: Stream, *, with_vmaf: bool = False) -> Encode:
    """What a stream costs and how good it is."""
    packets = stream.packets
    data = [packet.data for packet in packets]
    scores = vmaf(clip, decoded(data)) if with_vmaf else []
    return Encode(
        width=clip.width,
        height=clip.height,
        duration_s=clip.duration_s,
        frame_bytes=[packet.size for packet in packets],
        sse_y=[packet.luma_sse_in_8_bits for packet in packets],
        ssim_y=[packet.ssim[0] for packet in packets if packet.ssim is not None],
        qps=[packet.qp for packet in packets],
        deltas=[float(delta) for delta in stream.deltas],
        seconds=stream.seconds,
        passes=stream.passes,
        stream_hash=hashlib.sha256(b"".join(data)).hexdigest(),
        vmaf=sum(scores) / len(scores) if scores else None,
    )


class CpuClock:
    """CPU seconds of this process since it was made: the encoder's threads count, other processes do not."""

    def __init__(self) -> None:
        self._start_s = time.process_time()

    @property
    def seconds(self) -> float:
        return time.process_time() - self._start_s
