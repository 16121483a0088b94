"""What commands print: one aligned line per event (word, place, value), or with `--json` one JSON value and no more.

run    runs/0007-minigop-sac      seed 3   SVT-AV1 4.1.0
next   reel evaluate runs/0007-minigop-sac
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import warnings
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator

_JSON_STREAM: ContextVar[TextIO | None] = ContextVar("where JSON goes while a command runs with --json", default=None)


@contextmanager
def json_alone(wanted: bool) -> Iterator[None]:
    """While a command runs with `--json`: stdout gets its JSON alone, all it prints for people goes to stderr."""
    token = _JSON_STREAM.set(sys.stdout if wanted else None)
    try:
        with redirect_stdout(sys.stderr if wanted else sys.stdout):
            yield
    finally:
        _JSON_STREAM.reset(token)


def line(word: str, place: object = "", *values: object) -> None:
    """Print one event; what the values mean stands beside them ("seed 3", "212 steps/s")."""
    print(_event(word, place, *values), flush=True)


def note(word: str, place: object = "", *values: object) -> None:
    """Print one event on stderr; what the command prints is not disturbed."""
    print(_event(word, place, *values), file=sys.stderr, flush=True)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Print each warning once, as a note, instead of Python's two lines of code wherever it comes up."""
    said: set[str] = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        if str(message) not in said:
            said.add(str(message))
            note("note", message)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


def _event(word: str, place: object, *values: object) -> str:
    tail = "   ".join(str(value) for value in values)
    return f"{word:<6} {place!s:<26} {tail}".rstrip() if tail else f"{word:<6} {place}".rstrip()


def renamed(former: str, today: str) -> None:
    """Say on stderr that a name which was typed goes away; what the command prints is not disturbed."""
    print(f"note   {former} is now {today}; the former name works in this version only", file=sys.stderr, flush=True)


def next_command(command: str) -> None:
    """Print the last line: what to run next, as it can be typed here."""
    program, _, rest = command.partition(" ")
    line("next", f"{_typed(program)} {rest}".rstrip())


def _typed(program: str) -> str:
    """`reel`, or the path it was started by where the shell would not find it (`make demo` in a fresh checkout)."""
    started = Path(sys.argv[0])
    if shutil.which(program) or started.name != program or not started.is_file():
        return program
    return os.path.relpath(started)


def as_json(value: Any) -> None:
    """Print one JSON value; figures that are not finite are null, because JSON has no word for them."""
    print(json.dumps(_finite(value), indent=2, default=str), file=_JSON_STREAM.get(), flush=True)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
