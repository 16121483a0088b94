"""The probe: one CRF pass that shows the encoder's own QP for every picture, and what bits and error they led to."""

from __future__ import annotations

import hashlib
import io
import json
import time
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reelrl.encode.codecs import backends
from reelrl.encode.codecs.whole_clip import encode_packets
from reelrl.settings.config import to_mapping
from reelrl.storage.cache import keep, kept
from reelrl.storage.files import cache_dir

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reelrl.content.clip import Clip
    from reelrl.encode.codecs.packet import Packet
    from reelrl.encode.codecs.settings import EncoderSettings

VERSION = 3
"""Raise it when what is kept changes: files of another version are not used."""

_UNSEEN = {"recon", "ssim", "psnr", "deadline_s"}  # settings that change no byte of the stream


@dataclass(frozen=True, eq=False)
class Probe:
    """Per picture in display order, int64: QP, temporal layer, bits of its temporal unit, squared luma error.

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


def probe(clip: Clip, settings: EncoderSettings) -> Probe:
    """The clip coded by the encoder alone at `settings.qp`, from disk where the same encoder did it before."""
    # With recon, because without it errors of leaf pictures are measured before they are filtered.
    settings = replace(settings.for_clip(clip), recon=True, psnr=True, ssim=False, picture_qp=False)
    found = _load(_place(clip, settings), clip)
    if found is None:
        started = time.process_time()
        packets = [replace(packet, recon=None) for packet in encode_packets(clip, settings)]
        found = remember(clip, settings, packets, time.process_time() - started)
    return found


def remember(clip: Clip, settings: EncoderSettings, packets: Sequence[Packet], cpu_s: float) -> Probe:
    """Keep a pass by the encoder alone that was made anyway: it is the probe of these settings."""
    rows = [(p.qp, p.layer, 8 * p.size, p.sse[0]) for p in packets if p.sse is not None]
    qps, layers, bits, sse = np.array(rows, np.int64).T
    found = Probe(qps, layers, bits, sse, cpu_s)
    body = io.BytesIO()
    np.savez(body, **{field.name: getattr(found, field.name) for field in fields(Probe)})
    keep(_place(clip, settings.for_clip(clip)), body.getvalue())
    return found


def _place(clip: Clip, settings: EncoderSettings) -> Path:
    return cache_dir() / "probes" / f"{_key(clip, settings)}.npz"


def _key(clip: Clip, settings: EncoderSettings) -> str:
    """Whatever the stream depends on, as one name."""
    chosen = {name: value for name, value in to_mapping(settings).items() if name not in _UNSEEN}
    facts: list[Any] = [VERSION, clip.content_hash, chosen, backends.probe(settings.backend).version]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def _load(path: Path, clip: Clip) -> Probe | None:
    body = kept(path)
    if body is None:
        return None
    try:
        with np.load(io.BytesIO(body), allow_pickle=False) as arrays:
            values: dict[str, Any] = {name: arrays[name] for name in arrays.files}
        found = Probe(**values | {"cpu_s": float(values["cpu_s"])})
    except (ValueError, TypeError, KeyError, OSError):
        return None
    return found if len(found.qps) == clip.frame_count else None
