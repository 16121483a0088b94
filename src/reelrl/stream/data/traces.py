"""Network traces: how many bytes per second a link carries, slot by slot.

read_trace(path) -> Trace            one file: our JSON (Sabre's network.json), two-column text, Mahimahi, iperf3's JSON
read_traces(source) -> list[Trace]   a file, a folder (sorted by name), a CSV log of several links, a parsed list, or a
                                     list of any of these
write_trace(trace, path, format)     the same three formats
load_trace(path)                     the four lists of arrays that Pensieve-style code expects
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reelrl.errors import ConfigError, ContentError
from reelrl.storage.files import write_atomic
from reelrl.stream.data import trace_formats as trace_files
from reelrl.stream.data import trace_logs

Floats = npt.NDArray[np.float64]

FORMATS = ("json", "cooked", "mahimahi")


@dataclass(frozen=True, eq=False)
class Trace:
    """A link: slot i carries `bytes_per_s[i]` from `edges_s[i]` to `edges_s[i + 1]`, and answers after `latency_ms[i]`.

    Rates are kept in bytes per second because that is what the rule divides by; `kbps` is the number to show.
    """

    name: str
    edges_s: Floats
    bytes_per_s: Floats
    latency_ms: Floats
    durations_ms: Floats = field(repr=False)

    def __post_init__(self) -> None:
        for array in (self.edges_s, self.bytes_per_s, self.latency_ms, self.durations_ms):
            array.setflags(write=False)
        trace_files.check_rates(self.name, self.kbps, self.durations_ms)
        if not np.any(self.bytes_per_s * np.diff(self.edges_s) > 0):
            raise ContentError(
                f"{self.name}: all {len(self)} slots carry 0 kbps, so no chunk ever arrives; give a trace "
                "with a slot above 0"
            )

    @staticmethod
    def from_slots(name: str, durations_ms: Any, kbps: Any, latency_ms: Any = 0.0) -> Trace:
        """A trace from parallel lists; a single latency holds for every slot."""
        durations = np.array(durations_ms, dtype=np.float64)
        rates = np.array(kbps, dtype=np.float64)
        latencies = np.broadcast_to(np.asarray(latency_ms, dtype=np.float64), rates.shape).copy()
        trace_files.check_slots(name, durations, rates, latencies)
        edges = np.concatenate([[0.0], np.cumsum(durations)]) / 1000.0
        return Trace(name, edges, rates * 125.0, latencies, durations)

    def __len__(self) -> int:
        return len(self.bytes_per_s)

    @property
    def kbps(self) -> Floats:
        """Bandwidth of each slot."""
        return self.bytes_per_s / 125.0

    @property
    def duration_s(self) -> float:
        """Length of one pass; players that outlast it start again at the beginning."""
        return float(self.edges_s[-1] - self.edges_s[0])

    @property
    def bytes_per_pass(self) -> float:
        """What one pass of the trace can carry."""
        return float(np.sum(self.bytes_per_s * np.diff(self.edges_s)))

    def slots(self) -> list[dict[str, float]]:
        """The trace as our JSON holds it."""
        rows = zip(self.durations_ms.tolist(), self.kbps.tolist(), self.latency_ms.tolist(), strict=True)
        return [{"duration_ms": d, "bandwidth_kbps": k, "latency_ms": m} for d, k, m in rows]

    def scaled(self, factor: float, name: str | None = None) -> Trace:
        """The same link, `factor` times as fast."""
        return Trace(
            name or self.name,
            self.edges_s.copy(),
            self.bytes_per_s * factor,
            self.latency_ms.copy(),
            self.durations_ms.copy(),
        )


def read_trace(path: str | Path, *, check_units: bool = True) -> Trace:
    """One trace file, its format found by looking inside.

    `check_units=False` accepts rates that look like another unit (above 1 Gbit/s, or never above 10 kbit/s).
    """
    path = Path(path)
    if _is_log(path):
        links = _read_log(path, check_units)
        if len(links) > 1:
            raise ContentError(f"{path}: a log of {len(links)} links; read them all with read_traces")
        return links[0]
    text = trace_files.read_text(path)
    kind = trace_files.detect(path, text)
    if kind == "json":
        trace = Trace.from_slots(str(path), *trace_files.parse_json(str(path), text))
    elif kind == "mahimahi":
        trace = Trace.from_slots(str(path), *trace_files.parse_mahimahi(str(path), text))
    else:
        trace = _from_cooked(str(path), *trace_files.parse_cooked(str(path), text))
    if check_units:
        trace_files.check_units(str(path), trace.kbps, kind)
    return Trace(
        path.stem if path.suffix == ".json" else path.name,
        trace.edges_s,
        trace.bytes_per_s,
        trace.latency_ms,
        trace.durations_ms,
    )


def _is_log(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return trace_logs.is_log(file.read(trace_logs.LONGEST_HEADER).decode("utf-8", errors="replace"))


def _read_log(path: Path, check_units: bool) -> list[Trace]:
    links = [Trace.from_slots(*slots) for slots in trace_logs.read_logs(path)]
    if check_units:
        trace_files.check_units(str(path), np.concatenate([trace.kbps for trace in links]), "log")
    return links


def _from_cooked(name: str, times_s: Floats, mbps: Floats) -> Trace:
    # The rate of line i holds on (t[i-1], t[i]], so the first line gives only the starting time. The product is
    # written as Pensieve's simulator computes it: going through kbps would cost the last bit.
    durations_ms = np.diff(times_s) * 1000.0
    return Trace(name, times_s, mbps[1:] * 1_000_000.0 / 8.0, np.zeros(len(durations_ms)), durations_ms)


def read_traces(source: Any, *, check_units: bool = True) -> list[Trace]:
    """Every trace of a file, a folder and its subfolders (sorted by path), parsed slots, or a list of these."""
    found = list(_expand(source, check_units))
    if not found:
        place = ", ".join(map(str, source)) if isinstance(source, list | tuple) else source
        raise ContentError(f"{place or 'empty list'}: no traces found; give a trace file or a folder that holds some")
    return found


def _expand(source: Any, check_units: bool) -> Iterator[Trace]:
    if isinstance(source, Trace):
        yield source
    elif isinstance(source, str | Path):
        path = Path(source)
        for file in _files_in(path) if path.is_dir() else [path]:
            if _is_log(file):
                yield from _read_log(file, check_units)
            else:
                yield read_trace(file, check_units=check_units)
    elif isinstance(source, Sequence) and source and isinstance(source[0], Mapping):
        yield Trace.from_slots("trace", *trace_files.slots_of("trace", source))
    elif isinstance(source, Sequence):
        for entry in source:
            yield from _expand(entry, check_units)
    else:
        raise ContentError(
            f"a trace source is of type {type(source).__name__}; give a path, a folder, a list of slots or a Trace"
        )


def _files_in(folder: Path) -> list[Path]:
    """Plain files by name. Of a pair of Mahimahi's, only the way down: videos do not come up it."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and not p.name.startswith("."))
    names = set(files)
    return [p for p in files if not (p.suffix == ".up" and p.with_suffix(".down") in names)]


def load_trace(path: str | Path) -> tuple[list[npt.NDArray[np.int64]], list[Floats], list[Floats], list[Floats]]:
    """`all_cooked_time` (slot indices), `all_cooked_bw` (kbps), `all_cooked_dur_ms`, `all_cooked_latency_ms`.

    One array per trace in each list; a folder gives as many as it holds files.
    """
    traces = read_traces(path)
    return (
        [np.arange(len(t)) for t in traces],
        [t.kbps for t in traces],
        [t.durations_ms for t in traces],
        [t.latency_ms for t in traces],
    )


load_movie_json = load_trace  # the name users know; it has always read network traces, not movies


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
    packet_bytes = float(trace_files.MAHIMAHI_PACKET_BYTES)
    packets = np.arange(1, int(passed[-1] // packet_bytes) + 1) * packet_bytes
    if not len(packets):
        raise ConfigError(f"{trace.name} carries {passed[-1]:g} bytes, less than one packet; write it as json")
    # Flat stretches have no packets; a tiny slope keeps the table invertible.
    stamps = np.interp(packets, passed + np.arange(len(passed)) * 1e-9, edges_s) * 1000.0
    return "".join(f"{int(stamp)}\n" for stamp in np.ceil(stamps))
