"""Trace formats, parsed and checked. Every error names the file, the entry, the value and the rule.

json       [{"duration_ms": 1000, "bandwidth_kbps": 45000, "latency_ms": 20.0}, ...]
           or what `iperf3 --json` prints: {"intervals": [{"sum": {"seconds": 1.0, "bits_per_second": 4.5e7}}, ...]}
cooked     "time_s  Mbit/s" per line; the rate of line i holds on (t[i-1], t[i]]
mahimahi   one integer per line: the millisecond at which one 1500-byte packet may pass
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from reelrl.errors import ContentError
from reelrl.storage import plain_data

if TYPE_CHECKING:
    from pathlib import Path

Floats = npt.NDArray[np.float64]
Kind = Literal["json", "cooked", "mahimahi", "log"]

MAX_FILE_BYTES = 32 * 2**20  # an hour at 1 ms per slot fits; a gigabyte by mistake is refused before it is read
MAX_SLOTS = 2_000_000
MAX_KBPS = 1e9
MAX_SLOT_MS = 1e12
MAX_KBPS_MEDIAN = 1_000_000.0
MIN_KBPS_PEAK = 10.0
MAHIMAHI_PACKET_BYTES = 1500
MAHIMAHI_SLOT_MS = 1000.0
_KEYS = ("duration_ms", "bandwidth_kbps", "latency_ms")


def read_text(path: Path) -> str:
    """The file's text, refused when it is missing, not a plain file, too long, or not text."""
    if not path.is_file():
        raise ContentError(
            f"{path}: {'not a plain file' if path.exists() else 'no such file'}; give the path of a file"
        )
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        raise ContentError(
            f"{path}: {size} bytes is longer than the {MAX_FILE_BYTES} that are read; cut it into shorter files"
        )
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ContentError(f"{path}: byte {error.start} is not text; give JSON or plain text") from error
    except OSError as error:
        raise ContentError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error


def detect(path: Path, text: str) -> Kind:
    """Which of the formats the text is in."""
    head = text.lstrip()[:1000]
    if not head:
        raise ContentError(f"{path}: the file is empty; a trace needs at least one slot")
    if head[0] in "[{":
        return "json"
    columns = len(_words(head.splitlines()[0]))
    if columns > 2:
        raise ContentError(
            f"{path}, line 1: {columns} columns; traces have 1 (Mahimahi) or 2 (time_s Mbit/s), or are JSON"
        )
    return "cooked" if columns == 2 else "mahimahi"


def parse_document(name: str, text: str) -> Any:
    """JSON, or an error that says where it breaks."""
    try:
        return plain_data.parse_json(text)
    except ValueError as error:
        raise ContentError(f"{name}: not valid JSON ({error}); check that the file is complete") from error


def parse_json(name: str, text: str) -> tuple[Floats, Floats, Floats]:
    """Durations (ms), rates (kbps) and latencies (ms) of our JSON."""
    return slots_of(name, parse_document(name, text))


def slots_of(name: str, slots: Any) -> tuple[Floats, Floats, Floats]:
    """The columns of a parsed list of slots."""
    if isinstance(slots, Mapping) and "intervals" in slots:
        slots = _iperf_slots(name, slots["intervals"])
    if not isinstance(slots, Sequence) or isinstance(slots, str):
        raise ContentError(f"{name}: holds a {type(slots).__name__}; a trace is a list of {{{', '.join(_KEYS)}}}")
    if not 0 < len(slots) <= MAX_SLOTS:
        raise ContentError(f"{name}: {len(slots)} slots; a trace has 1 to {MAX_SLOTS}")
    columns = np.array([_numbers(name, i, slot) for i, slot in enumerate(slots)], dtype=np.float64)
    return columns[:, 0], columns[:, 1], columns[:, 2]


def _iperf_slots(name: str, intervals: Any) -> Any:
    """iperf3's intervals as slots of ours."""
    if not isinstance(intervals, Sequence) or isinstance(intervals, str):
        raise ContentError(f"{name}: intervals = {shown(intervals)}; iperf3 writes a list of them with --json")
    sums: list[Any] = [each.get("sum") if isinstance(each, Mapping) else None for each in intervals]
    wrong = next((i for i, each in enumerate(sums) if not isinstance(each, Mapping)), None)
    if wrong is not None:
        raise ContentError(f"{name}, interval {wrong}: it has no sum; give what `iperf3 --json` printed")
    return [
        {
            "duration_ms": _number(name, i, each, "seconds") * 1000.0,
            "bandwidth_kbps": _number(name, i, each, "bits_per_second") / 1000.0,
        }
        for i, each in enumerate(sums)
    ]


def _numbers(name: str, index: int, slot: Any) -> tuple[float, float, float]:
    if not isinstance(slot, Mapping):
        raise ContentError(f"{name}, slot {index}: {shown(slot)} is not an object; write {{{', '.join(_KEYS)}}}")
    values = tuple(_number(name, index, slot, key) for key in _KEYS)
    return values[0], values[1], values[2]


def _number(name: str, index: int, slot: Mapping[str, Any], key: str) -> float:
    value = slot.get(key, 0.0 if key == "latency_ms" else None)
    if value is None:
        raise ContentError(f"{name}, slot {index}: {key} is missing; each slot needs duration_ms and bandwidth_kbps")
    # A bool is an int to Python, and an int of 400 digits overflows a float: neither is a measurement.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
        raise ContentError(f"{name}, slot {index}: {key} = {shown(value)}; it must be a finite number")
    return float(value)


def parse_cooked(name: str, text: str) -> tuple[Floats, Floats]:
    """Times (s) and rates (Mbit/s) of every line."""
    rows = [_fields(name, i, line, 2) for i, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not 2 <= len(rows) <= MAX_SLOTS:
        raise ContentError(
            f"{name}: {len(rows)} lines; a text trace has 2 to {MAX_SLOTS} (the first gives only the start time)"
        )
    table = np.array(rows, dtype=np.float64)
    times, mbps = table[:, 0].copy(), table[:, 1].copy()
    _refuse(
        name,
        "line",
        "time_s",
        times,
        (times < 0) | (np.diff(times, prepend=-1.0) <= 0),
        "times start at 0 or later and increase",
        first=1,
    )
    _refuse(name, "line", "rate (Mbit/s)", mbps, mbps < 0, "rates are 0 or more", first=1)
    return times, mbps


def parse_mahimahi(name: str, text: str) -> tuple[Floats, Floats, float]:
    """Durations and rates of one-second slots; the last is as long as what is left."""
    stamps = np.array([_fields(name, i, line, 1)[0] for i, line in enumerate(text.splitlines(), 1) if line.strip()])
    _refuse(
        name,
        "line",
        "time_ms",
        stamps,
        (stamps < 0) | (np.diff(stamps, prepend=0.0) < 0),
        "packet times never decrease",
        first=1,
    )
    end_ms = float(stamps[-1])
    if not 0 < end_ms <= MAX_SLOTS * MAHIMAHI_SLOT_MS:
        raise ContentError(
            f"{name}: the last packet leaves at {end_ms:g} ms; it must be after 0 and within {MAX_SLOTS} s"
        )
    edges = np.append(np.arange(0.0, end_ms, MAHIMAHI_SLOT_MS), end_ms)
    # A packet on an edge closes the slot before it, as the last one closes the trace.
    index = np.clip(np.searchsorted(edges, stamps, side="left") - 1, 0, len(edges) - 2)
    bits = np.bincount(index, minlength=len(edges) - 1) * (MAHIMAHI_PACKET_BYTES * 8.0)
    return np.diff(edges), bits / np.diff(edges), 0.0


def _fields(name: str, line_number: int, line: str, columns: int) -> tuple[float, ...]:
    parts = _words(line)
    if len(parts) != columns:
        raise ContentError(
            f"{name}, line {line_number}: {len(parts)} columns, the file's first line has {columns}; keep one format"
        )
    try:
        values = tuple(float(part) for part in parts)
    except ValueError as error:
        raise ContentError(
            f"{name}, line {line_number}: {shown(line)} is not a number; write plain decimals"
        ) from error
    if not all(math.isfinite(value) for value in values):
        raise ContentError(f"{name}, line {line_number}: {shown(line)} is not finite; remove the line or measure again")
    return values


def _words(line: str) -> list[str]:
    return line.replace(",", " ").split()


def check_slots(name: str, durations_ms: Floats, kbps: Floats, latency_ms: Floats) -> None:
    """Refuse a slot that no network could have."""
    if durations_ms.ndim != 1 or durations_ms.shape != kbps.shape or not 0 < len(kbps) <= MAX_SLOTS:
        raise ContentError(
            f"{name}: {durations_ms.shape} durations for {kbps.shape} rates; give one of each per slot, 1 to "
            f"{MAX_SLOTS} slots"
        )
    finite = np.isfinite
    _refuse(
        name,
        "slot",
        "duration_ms",
        durations_ms,
        ~(finite(durations_ms) & (durations_ms > 0)),
        "durations are finite and above 0",
    )
    _refuse(name, "slot", "bandwidth_kbps", kbps, ~(finite(kbps) & (kbps >= 0)), "rates are finite and 0 or more")
    _refuse(
        name,
        "slot",
        "latency_ms",
        latency_ms,
        ~(finite(latency_ms) & (latency_ms >= 0)),
        "latencies are finite and 0 or more",
    )


def check_rates(name: str, kbps: Floats, durations_ms: Floats) -> None:
    """Refuse what would give downloads of no time, or moments that a clock cannot tell apart."""
    _refuse(name, "slot", "bandwidth_kbps", kbps, ~(kbps <= MAX_KBPS), f"a link carries at most {MAX_KBPS:g} kbit/s")
    _refuse(name, "slot", "duration_ms", durations_ms, ~(durations_ms <= MAX_SLOT_MS), f"at most {MAX_SLOT_MS:g} ms")


def check_units(name: str, kbps: Floats, kind: Kind) -> None:
    """Refuse rates that are plausible only in another unit."""
    unit = "Mbit/s" if kind == "cooked" else "kbit/s"
    median, peak = float(np.median(kbps)), float(kbps.max())
    if median > MAX_KBPS_MEDIAN:
        raise ContentError(
            f"{name}: the median rate is {median:g} kbit/s, above 1 Gbit/s; the file probably holds smaller "
            f"units than {unit}. "
            "Convert it, or read it with check_units=False"
        )
    if 0 < peak < MIN_KBPS_PEAK:
        raise ContentError(
            f"{name}: the highest rate is {peak:g} kbit/s, below any video; the file probably holds larger "
            f"units than {unit}. "
            "Convert it, or read it with check_units=False"
        )


def shown(value: Any) -> str:
    """A value as an error may print it: short, whatever it was."""
    try:
        text = repr(value)
    except ValueError:  # an int with more digits than Python is willing to print
        text = f"a huge {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def _refuse(
    name: str, entry: str, what: str, values: Floats, wrong: npt.NDArray[np.bool_], rule: str, first: int = 0
) -> None:
    if wrong.any():
        index = int(np.argmax(wrong))
        raise ContentError(f"{name}, {entry} {index + first}: {what} = {values[index]:g}; {rule}")
