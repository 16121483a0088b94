"""Measurement logs in CSV, as campaigns publish them, cut into links.

| log                                        | rate                        | one link per           |
|--------------------------------------------|-----------------------------|------------------------|
| 4G and 5G of University College Cork       | DL_bitrate, kbit/s          | file                   |
| Lumos5G                                    | Throughput, Mbit/s          | run                    |
| 5GTracker (Starlink and cellular drives)   | throughput, Mbit/s          | file                   |
| Puffer's video_sent                        | delivery_rate, bytes/s      | stream of a session    |
| FCC's raw curr_webget                      | bytes_sec, in slots of 5 s  | unit and target        |

A row's rate holds until the next row's time; rows of one moment are averaged, rows without a rate passed over, and a
gap of more than half a minute ends a link. Files may be gigabytes: they are read row by row.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from reelrl.errors import ContentError, shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Floats = npt.NDArray[np.float64]
Slots = tuple[str, Floats, Floats, Floats]  # name, durations (ms), rates (kbit/s), latencies (ms)

MAX_LOG_BYTES = 8 * 2**30
MAX_GAP_S = 30.0
MAX_LINKS = 100_000
LONGEST_HEADER = 10_000


@dataclass(frozen=True)
class LogFormat:
    """Which columns hold what. `time` None: rows follow each other at `slot_s`."""

    rate: str
    kbps: float  # of one unit of the rate
    time: str | None = None
    sessions: tuple[str, ...] = ()
    latency: str | None = None
    latency_ms: float = 1.0  # of one unit of the latency
    slot_s: float = 1.0

    @property
    def needs(self) -> set[str]:
        """Columns without which it is another log."""
        return {self.rate, *self.sessions, *([self.time] if self.time else [])}


FORMATS = (
    LogFormat("DL_bitrate", 1.0, "Timestamp", latency="PINGAVG"),
    LogFormat("Throughput", 1000.0, sessions=("run_num",)),
    LogFormat("delivery_rate", 0.008, "time (ns GMT)", ("session_id", "index"), "rtt", 1e-3),
    LogFormat("bytes_sec", 0.008, sessions=("unit_id", "target"), slot_s=5.0),
    LogFormat("throughput", 1000.0, "time"),
)


def is_log(head: str) -> bool:
    """Whether a file that begins like this is a table with commas and names."""
    head = head.lstrip("\ufeff \t\r\n")
    line = head.splitlines()[0] if head else ""
    return "," in line and line[0] not in "[{" and re.search(r"[A-Za-z_]{3}", line) is not None


def read_logs(path: Path) -> list[Slots]:
    """Every link of a log."""
    size = path.stat().st_size
    if size > MAX_LOG_BYTES:
        raise ContentError(f"{path}: {size} bytes is longer than the {MAX_LOG_BYTES} that are read; cut it into parts")
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            rows = csv.reader(file)
            header = [column.strip() for column in next(rows)]
            kind = _format(path, header)
            sessions = _sessions(path, kind, header, rows)
    except csv.Error as error:
        raise ContentError(f"{path}: not a table of commas ({error}); check that the file is complete") from error
    links = [slots for key, columns in sessions.items() for slots in _links(_name(path, key), kind, columns)]
    if not links:
        raise ContentError(
            f"{path}: no link of two rows or more with a {kind.rate} above 0; check that the log is the one you meant"
        )
    return links


def _format(path: Path, header: list[str]) -> LogFormat:
    for kind in FORMATS:
        if kind.needs <= set(header):
            return kind
    known = "; ".join(", ".join(sorted(kind.needs)) for kind in FORMATS)
    raise ContentError(
        f"{path}: columns {shown(header[:8])} are of no log that is known; those have {known}. Write two columns, "
        "time_s and Mbit/s, instead"
    )


def _sessions(
    path: Path, kind: LogFormat, header: list[str], rows: Iterator[list[str]]
) -> dict[tuple[str, ...], list[tuple[float, float, float]]]:
    """(time, rate, latency) of every row that has a rate, by session, in the order of the file."""
    place = {name: header.index(name) for name in (*kind.needs, *([kind.latency] if kind.latency in header else []))}
    found: dict[tuple[str, ...], list[tuple[float, float, float]]] = {}
    for number, row in enumerate(rows, 2):
        if len(row) <= max(place.values()):
            continue  # an unfinished last line, or an empty one
        rate = _number(row[place[kind.rate]])
        if rate is None or rate < 0:
            continue
        key = tuple(row[place[name]].strip() for name in kind.sessions)
        columns = found.setdefault(key, [])
        if len(found) > MAX_LINKS:
            raise ContentError(f"{path}: more than {MAX_LINKS} sessions; cut the log into parts")
        when = len(columns) * kind.slot_s if kind.time is None else _seconds(path, number, row[place[kind.time]])
        waited = _number(row[place[kind.latency]]) if kind.latency in place else None
        columns.append((when, rate * kind.kbps, max((waited or 0.0) * kind.latency_ms, 0.0)))
    return found


def _links(name: str, kind: LogFormat, columns: list[tuple[float, float, float]]) -> Iterator[Slots]:
    table = np.array(columns, dtype=np.float64)
    table = table[np.argsort(table[:, 0], kind="stable")]
    moments, rows = np.unique(table[:, 0], return_inverse=True)
    counts = np.bincount(rows)
    rates, waits = (np.bincount(rows, weights=table[:, column]) / counts for column in (1, 2))
    cuts = np.flatnonzero(np.diff(moments) > max(MAX_GAP_S, kind.slot_s)) + 1
    parts = np.split(np.arange(len(moments)), cuts)
    for number, part in enumerate(parts):
        if len(part) < 2 or not rates[part].any():
            continue
        steps = np.diff(moments[part])
        durations_ms = np.append(steps, np.median(steps)) * 1000.0
        yield f"{name}-{number}" if len(parts) > 1 else name, durations_ms, rates[part], waits[part]


def _name(path: Path, key: tuple[str, ...]) -> str:
    words = [re.sub(r"[^\w.-]+", "_", word)[:40] for word in key]
    return "-".join([path.stem, *words])


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None  # "-" and "" stand for what was not measured
    return value if np.isfinite(value) else None


def _seconds(path: Path, line: int, text: str) -> float:
    """A time, as seconds since 1970 or since the log began."""
    value = _number(text)
    if value is not None:
        # Nanoseconds, microseconds and milliseconds since 1970 tell themselves by their size.
        for limit, unit in ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3)):
            if abs(value) > limit:
                return value / unit
        return value
    bare = re.sub(r"\s+[A-Z]{2,5}$", "", text.strip())  # a time zone's name: all rows of a log share it
    for pattern in ("%Y.%m.%d_%H.%M.%S", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S"):
        try:
            return datetime.strptime(bare, pattern).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    try:
        return datetime.fromisoformat(bare).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise ContentError(
            f"{path}, line {line}: the time is {shown(text)}; write seconds, or a date like 2024-05-01 12:30:00"
        ) from None
