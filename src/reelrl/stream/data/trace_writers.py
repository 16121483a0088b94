"""Traces to files, in each format that is read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from reelrl.errors import ConfigError
from reelrl.storage.files import write_atomic
from reelrl.stream.data.trace_formats import MAHIMAHI_PACKET_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.stream.data.traces import Trace

FORMATS = ("json", "cooked", "mahimahi")


def write_trace(trace: Trace, path: Path, format: str = "json") -> None:  # noqa: A002 - the word users know
    """Save a trace. Text keeps rates to nine digits; Mahimahi keeps whole packets and milliseconds."""
    if format == "json":
        write_atomic(path, json.dumps(trace.slots()))
    elif format == "cooked":
        write_atomic(path, _cooked(trace))
    elif format == "mahimahi":
        write_atomic(path, _mahimahi(trace))
    else:
        raise ConfigError(f"format = {format!r}; choose one of {', '.join(FORMATS)}")


def _cooked(trace: Trace) -> str:
    # The first line only gives the start time; its rate is never used.
    mbps = np.concatenate([trace.kbps[:1], trace.kbps]) / 1000.0
    return "".join(f"{t:.9g}\t{r:.9g}\n" for t, r in zip(trace.edges_s.tolist(), mbps.tolist(), strict=True))


def _mahimahi(trace: Trace) -> str:
    """The millisecond at which each packet has fully arrived; the last line is the length of the pass."""
    edges_s = trace.edges_s - trace.edges_s[0]
    passed = np.concatenate([[0.0], np.cumsum(trace.bytes_per_s * np.diff(edges_s))])
    packets = np.arange(1, int(passed[-1] // MAHIMAHI_PACKET_BYTES) + 1) * float(MAHIMAHI_PACKET_BYTES)
    if not len(packets):
        raise ConfigError(f"{trace.name} carries {passed[-1]:g} bytes, less than one packet; write it as json")
    # Flat stretches have no packets; a tiny slope keeps the table invertible.
    stamps = np.interp(packets, passed + np.arange(len(passed)) * 1e-9, edges_s) * 1000.0
    return "".join(f"{int(stamp)}\n" for stamp in np.ceil(stamps))
