"""What a player says, checked: every number finite and possible, every key known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reelrl.errors import ConfigError, shown
from reelrl.names import did_you_mean

MOST_DOWNLOADS = 64
MOST_BYTES = 1e12
MOST_SECONDS = 86_400.0


@dataclass(frozen=True)
class Download:
    """A video segment that was received, or given up. `download_ms` counts from the request to the last byte."""

    segment: int
    rung: int
    size_bytes: float
    download_ms: float
    abandoned: bool = False
    buffer_s: float | None = None


@dataclass(frozen=True)
class PlayerReport:
    """The segment that is about to be asked for, the buffer now, and what ended since the last decision."""

    segment: int
    buffer_s: float
    downloads: tuple[Download, ...] = ()
    interrupted: bool = False


def read_report(document: Any, chunks: int, rungs: int) -> PlayerReport:
    """The report in a request's JSON."""
    fields = Fields("report", document, PlayerReport.__dataclass_fields__)
    downloads = fields.document.get("downloads", [])
    if not isinstance(downloads, list) or len(downloads) > MOST_DOWNLOADS:
        raise ConfigError(f"downloads = {shown(downloads)}; give a list of 0 to {MOST_DOWNLOADS} downloads")
    return PlayerReport(
        fields.index("segment", chunks),
        fields.number("buffer_s", 0.0, MOST_SECONDS),
        tuple(_download(number, each, chunks, rungs) for number, each in enumerate(downloads)),
        fields.truth("interrupted"),
    )


def _download(number: int, document: Any, chunks: int, rungs: int) -> Download:
    fields = Fields(f"downloads[{number}]", document, Download.__dataclass_fields__)
    abandoned = fields.truth("abandoned")
    buffer = fields.document.get("buffer_s")
    return Download(
        fields.index("segment", chunks),
        fields.index("rung", rungs),
        # What is given up may not have begun to arrive; what has arrived took bytes and time.
        fields.number("size_bytes", 0.0 if abandoned else 1.0, MOST_BYTES),
        fields.number("download_ms", 0.0 if abandoned else 1e-3, 1000.0 * MOST_SECONDS),
        abandoned,
        None if buffer is None else fields.number("buffer_s", 0.0, MOST_SECONDS),
    )


class Fields:
    """A JSON object whose keys are known, read one by one."""

    def __init__(self, name: str, document: Any, known: Mapping[str, Any]) -> None:
        if not isinstance(document, Mapping):
            raise ConfigError(f"{name} = {shown(document)}; give a JSON object with {', '.join(known)}")
        for key in document:
            if key not in known:
                raise ConfigError(f"{name}: {shown(key)} is no key of it{did_you_mean(str(key)[:80], list(known))}")
        self.name = name
        self.document = document

    def number(self, key: str, low: float, high: float, default: float | None = None) -> float:
        """A finite number in [low, high]."""
        value = self.document.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise ConfigError(f"{self.name}: {key} = {shown(value)}; give a number from {low:g} to {high:g}")
        return float(value)

    def index(self, key: str, count: int) -> int:
        """A whole number from 0 to count - 1."""
        value = self.document.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < count:
            raise ConfigError(f"{self.name}: {key} = {shown(value)}; give a whole number from 0 to {count - 1}")
        return value

    def truth(self, key: str) -> bool:
        """True or false; false where it is left out."""
        value = self.document.get(key, False)
        if not isinstance(value, bool):
            raise ConfigError(f"{self.name}: {key} = {shown(value)}; give true or false")
        return value

    def text(self, key: str, default: str) -> str:
        """A word."""
        value = self.document.get(key, default)
        if not isinstance(value, str):
            raise ConfigError(f"{self.name}: {key} = {shown(value)}; give a word")
        return value

    def choice(self, key: str, among: list[str], default: str | None) -> str | None:
        """One of some words."""
        value: str | None = self.document.get(key, default)
        if value is not None and value not in among:
            options = ", ".join(among[:20]) or "nothing: leave it out"
            raise ConfigError(f"{self.name}: {key} = {shown(value)}; choose from {options}")
        return value
