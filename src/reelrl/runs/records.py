"""Append-only logs: one JSON object per line. A line that a killed writer left half is dropped when the log reopens."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.errors import RunError, shown
from reelrl.storage.files import explain_os_error
from reelrl.storage.plain_data import parse_object
from reelrl.storage.regular_files import open_binary, open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator


LONGEST_LINE = 64 << 20
"""Bytes of a record; no episode of ours comes near."""


class Log:
    """The writer of one log. Every line is complete in the file when `append` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._descriptor = open_regular(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        except OSError as error:
            raise RunError(explain_os_error(error, path, "open")) from error
        os.ftruncate(self._descriptor, _end_of_last_line(self._descriptor))

    @property
    def size(self) -> int:
        """Bytes so far."""
        return os.fstat(self._descriptor).st_size

    def append(self, record: Mapping[str, Any]) -> None:
        """Add one line; when the disk is full, nothing of it stays and the error says so."""
        line = json.dumps(to_plain(record), separators=(",", ":"), allow_nan=False).encode() + b"\n"
        before = self.size
        try:
            written = os.write(self._descriptor, line)
            while written < len(line):
                written += os.write(self._descriptor, line[written:])
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._descriptor, before)
            raise RunError(explain_os_error(error, self.path, "append to")) from error

    def cut(self, size: int) -> None:
        """Forget everything after byte `size`, a value that `size` once had."""
        if type(size) is not int or size < 0:
            raise RunError(f"{self.path} is to be cut at byte {shown(size)}, which no log has; use an older checkpoint")
        if size > self.size:
            raise RunError(f"{self.path} has {self.size} bytes, the checkpoint saw {size}; lines of it are lost")
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """The log's records in order; a half last line is skipped, a damaged line elsewhere is an error."""
    try:
        file = open_binary(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise RunError(explain_os_error(error, path, "read")) from error
    with file:
        for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), 1):
            if len(line) == LONGEST_LINE:
                raise RunError(f"{path} line {number} has {LONGEST_LINE} bytes or more; repair or remove the line")
            if not line.endswith(b"\n"):
                return
            try:
                yield parse_object(line)
            except ValueError as error:
                raise RunError(
                    f"{path} line {number} is not JSON of a record: {line[:60]!r}; repair or remove the line"
                ) from error


def to_plain(value: Any) -> Any:
    """Data that JSON holds: numpy becomes numbers and lists; NaN and infinities become "nan", "inf", "-inf"."""
    if isinstance(value, np.generic | np.ndarray):
        return to_plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, Enum):
        return to_plain(value.value)
    if isinstance(value, Path | Fraction):
        return str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    raise RunError(f"a record holds {type(value).__name__} {value!r}, which JSON cannot; pass numbers, text or lists")


def _end_of_last_line(descriptor: int) -> int:
    """Bytes up to and with the last line break."""
    end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - 65536)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
