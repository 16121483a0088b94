"""A probe: one pass of libaom's constant quality, which shows its own quantiser and bits of every coded frame."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reelrl.encode.codecs.aom import api as aom_api
from reelrl.encode.codecs.aom.first_pass import two_pass_statistics
from reelrl.encode.codecs.aom.gops import KINDS
from reelrl.encode.codecs.aom.two_pass import TwoPassSession
from reelrl.encode.codecs.settings import key_facts
from reelrl.encode.frameqp.protocols import PlannedFrame
from reelrl.settings.config import to_mapping
from reelrl.storage.cache import arrays_of, cached, key_of
from reelrl.storage.files import cache_dir

if TYPE_CHECKING:
    from reelrl.content.clip import Clip
    from reelrl.encode.codecs.settings import EncoderSettings

VERSION = 1
"""Raise it when what is cached changes: files of another version are not used."""

_UNSEEN = ("deadline_s", "recon", "psnr", "ssim")  # settings that change no byte of the stream


@dataclass(frozen=True, eq=False)
class FrameProbe:
    """What constant quality did: a row per coded frame in coding order, and per shown frame.

    coded      int64 [coded frames, 5]: picture, kind (place in `KINDS`), layer, quantiser index, bits
    sse        squared luma error of each shown frame
    bytes      of each temporal unit
    cpu_s      of the pass when it was made
    """

    coded: NDArray[np.int64]
    sse: NDArray[np.int64]
    bytes: NDArray[np.int64]
    cpu_s: float

    @property
    def bits(self) -> int:
        """Of the whole stream."""
        return 8 * int(self.bytes.sum())

    @property
    def frames(self) -> list[PlannedFrame]:
        return [
            PlannedFrame(frame, KINDS[kind], layer, float(qindex), float(bits))
            for frame, kind, layer, qindex, bits in self.coded.tolist()
        ]


_FORMAT = arrays_of(FrameProbe)


def frame_probe(clip: Clip, settings: EncoderSettings, *, inner_delta_q: bool) -> FrameProbe:
    """The clip at constant quality `settings.qp`, from disk where the same encoder did it before.

    `inner_delta_q` leaves libaom its offsets inside frames.
    """
    settings = probe_settings(settings.for_clip(clip), inner_delta_q=inner_delta_q)
    key = key_of([VERSION, clip.content_hash, key_facts(to_mapping(settings), _UNSEEN), aom_api.load().version])

    def make() -> FrameProbe:
        statistics = two_pass_statistics(clip, settings)
        started = time.process_time()
        with TwoPassSession(clip, settings, statistics, steered=False) as session:
            session.request()
        rows = [
            (done.asked.frame, KINDS.index(done.asked.kind), done.asked.layer, done.qindex, done.bits)
            for done in session.coded
        ]
        return FrameProbe(
            np.array(rows, np.int64),
            np.array([packet.luma_sse_in_8_bits for packet in session.packets], np.int64),
            np.array([packet.size for packet in session.packets], np.int64),
            time.process_time() - started,
        )

    return cached(cache_dir() / "frame-probes" / f"{key}.npz", make, _FORMAT)


def probe_settings(settings: EncoderSettings, *, inner_delta_q: bool) -> EncoderSettings:
    """Of a pass that libaom makes by itself, with or without its offsets inside frames."""
    options = settings.options if inner_delta_q else settings.options | {"deltaq-mode": "0"}
    return replace(settings, recon=False, psnr=True, ssim=False, rate_control="crf", target_kbps=None, options=options)
