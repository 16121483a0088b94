"""The pass without maps that every episode is compared with: coded once per clip and settings, then cached on disk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reelrl.content.quality import PSNR_CAP_DB, psnr_from_sse
from reelrl.encode.codecs.backends import capabilities
from reelrl.encode.codecs.decoding import decoded
from reelrl.encode.codecs.rate_loop import FrameQp
from reelrl.encode.codecs.settings import key_facts
from reelrl.encode.codecs.whole_clip import encode_packets
from reelrl.encode.superblock.block_error import block_sse
from reelrl.settings.config import to_mapping
from reelrl.storage.cache import arrays_of, cached, key_of
from reelrl.storage.files import cache_dir

if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterator, Sequence

    from reelrl.content.clip import Clip
    from reelrl.content.frame import Frame
    from reelrl.encode.codecs.packet import Packet
    from reelrl.encode.codecs.settings import EncoderSettings
    from reelrl.encode.codecs.whole_clip import Decision
    from reelrl.encode.superblock.rewards import Scores

VERSION = 1
"""Raise it when what is cached changes: files of another version are not used."""

PSNR_HEADROOM_DB = 6.0
"""A frame may score so much above the best of the baseline's: more than three QP steps win, far less than infinity."""

_UNSEEN = {"recon", "ssim", "deadline_s"}  # settings that change no byte of the stream


@dataclass(frozen=True, eq=False)
class Baseline:
    """What the encoder makes of a clip when it is left alone; arrays have one row per frame.

    bytes        int64 [frames]
    sse, ssim    int64 and float64 [frames, 3], planes Y, Cb, Cr
    qp           int64 [frames]
    frame_types  int64 [frames], as `FrameType`
    block_sse    luma error per superblock, int64 [frames, superblocks]
    stream       all packets joined, uint8
    """

    bytes: NDArray[np.int64]
    sse: NDArray[np.int64]
    ssim: NDArray[np.float64]
    qp: NDArray[np.int64]
    frame_types: NDArray[np.int64]
    block_sse: NDArray[np.int64]
    stream: NDArray[np.uint8]
    luma_pixels: int

    @property
    def total_bytes(self) -> int:
        return int(self.bytes.sum())

    @property
    def packets(self) -> list[builtins.bytes]:
        """The packets of the stream."""
        return [part.tobytes() for part in np.split(self.stream, np.cumsum(self.bytes)[:-1])]

    @cached_property
    def psnr(self) -> NDArray[np.float64]:
        """PSNR in dB, [frames, 3]."""
        return np.array([plane_psnr(errors, self.luma_pixels) for errors in self.sse.tolist()])

    @cached_property
    def psnr_cap(self) -> Scores:
        """What a plane may score at most: identical planes never give infinity, nor a score out of all proportion."""
        y, cb, cr = np.minimum(self.psnr.max(0) + PSNR_HEADROOM_DB, PSNR_CAP_DB).tolist()
        return y, cb, cr

    def pictures(self) -> Iterator[Frame]:
        """The reconstructed frames, decoded anew: the stream is a hundredth of their size."""
        return decoded(self.packets)


def plane_psnr(sse: tuple[int, int, int], luma_pixels: int, caps: Scores = (PSNR_CAP_DB,) * 3) -> Scores:
    """PSNR of Y, Cb and Cr in 4:2:0, each at most its cap."""
    y, cb, cr = sse
    chroma = luma_pixels // 4
    return (
        psnr_from_sse(y, luma_pixels, caps[0]),
        psnr_from_sse(cb, chroma, caps[1]),
        psnr_from_sse(cr, chroma, caps[2]),
    )


def baseline_of(
    clip: Clip,
    settings: EncoderSettings,
    target_kbps: float | None = None,
    statistics: bytes | None = None,
    shifts: Sequence[int] | None = None,
) -> Baseline:
    """The clip coded without maps, from disk where that was done before by the same encoder.

    `shifts` moves the QP of whole frames.
    """
    settings = replace(settings.for_clip(clip), recon=True, ssim=True)
    path = cache_dir() / "baselines" / f"{_key(clip, settings, target_kbps, shifts)}.npz"
    return cached(
        path,
        lambda: _code(clip, settings, FrameQp(settings, target_kbps, shifts), statistics),
        arrays_of(Baseline),
        lambda saved: len(saved.bytes) == clip.frame_count,
    )


def _code(clip: Clip, settings: EncoderSettings, qps: FrameQp, statistics: bytes | None) -> Baseline:
    sources: list[Frame] = []

    def decide(number: int, frame: Frame) -> Decision:
        sources.append(frame)
        return {"qp": qps.next(number)}

    packets: list[Packet] = []
    errors = []
    for packet in encode_packets(clip, settings, decide, statistics=statistics):
        qps.update(packet)
        errors.append(block_sse(sources.pop(0).y, packet.recon.y))  # type: ignore[union-attr]
        packet.recon = None
        packets.append(packet)
    return Baseline(
        bytes=np.array([packet.size for packet in packets]),
        sse=np.array([packet.sse for packet in packets]),
        ssim=np.array([packet.ssim for packet in packets]),
        qp=np.array([packet.qp for packet in packets]),
        frame_types=np.array([int(packet.frame_type) for packet in packets]),
        block_sse=np.stack(errors),
        stream=np.frombuffer(b"".join(packet.data for packet in packets), np.uint8),
        luma_pixels=clip.width * clip.height,
    )


def _key(clip: Clip, settings: EncoderSettings, target_kbps: float | None, shifts: Sequence[int] | None = None) -> str:
    """Whatever the stream depends on, as one name."""
    chosen = key_facts(to_mapping(settings), _UNSEEN)
    facts = [VERSION, clip.content_hash, chosen, capabilities(settings.backend).version, target_kbps]
    return key_of(facts if shifts is None else [*facts, list(shifts)])
