"""The probe: one CRF pass that shows the encoder's own QP for every picture, and what bits and error they led to."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reelrl.encode.codecs.backends import capabilities
from reelrl.encode.codecs.session import EncoderSession
from reelrl.encode.codecs.settings import key_facts
from reelrl.settings.config import to_mapping
from reelrl.storage.cache import arrays_of, cached, key_of, store
from reelrl.storage.files import cache_dir

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reelrl.content.clip import Clip
    from reelrl.encode.codecs.packet import Packet
    from reelrl.encode.codecs.settings import EncoderSettings

VERSION = 3
"""Raise it when what is cached changes: files of another version are not used."""

_UNSEEN = {"recon", "ssim", "psnr", "deadline_s"}  # settings that change no byte of the stream


@dataclass(frozen=True, eq=False)
class Probe:
    """Per picture in display order, int64: QP, temporal layer, bits of its temporal unit, squared luma error in
    8-bit levels.

    `cpu_s` is what the pass took when it was made.
    """

    qps: NDArray[np.int64]
    layers: NDArray[np.int64]
    bits: NDArray[np.int64]
    sse: NDArray[np.int64]
    cpu_s: float

    @property
    def total_bits(self) -> int:
        return int(self.bits.sum())


_FORMAT = arrays_of(Probe)


def probe(clip: Clip, settings: EncoderSettings, content: str | None = None) -> Probe:
    """The clip coded by the encoder alone at `settings.qp`, from disk where the same encoder did it before.

    `content` names the pictures, where that is known without reading them; else it is the clip's hash.
    """
    # With recon, because without it errors of leaf pictures are measured before they are filtered.
    settings = replace(settings.for_clip(clip), recon=True, psnr=True, ssim=False, picture_qp=False)

    def make() -> Probe:
        started = time.process_time()
        with EncoderSession(settings) as session:
            packets = [replace(packet, recon=None) for packet in session.encode(clip)]
        return _probe_of(packets, time.process_time() - started)

    return cached(
        _path(content or clip.content_hash, settings), make, _FORMAT, lambda saved: len(saved.qps) == clip.frame_count
    )


def store_probe(clip: Clip, settings: EncoderSettings, packets: Sequence[Packet], cpu_s: float) -> None:
    """Cache a pass by the encoder alone that was made anyway: it is the probe of these settings."""
    store(_path(clip.content_hash, settings.for_clip(clip)), _FORMAT.encode(_probe_of(packets, cpu_s)))


def _probe_of(packets: Sequence[Packet], cpu_s: float) -> Probe:
    rows = [(p.qp, p.layer, 8 * p.size, p.luma_sse_in_8_bits) for p in packets]
    qps, layers, bits, sse = np.array(rows, np.int64).T
    return Probe(qps, layers, bits, sse, cpu_s)


def _path(content: str, settings: EncoderSettings) -> Path:
    """Where the probe is cached, by all that the stream depends on."""
    chosen = key_facts(to_mapping(settings), _UNSEEN)
    key = key_of([VERSION, content, chosen, capabilities(settings.backend).version])
    return cache_dir() / "probes" / f"{key}.npz"
