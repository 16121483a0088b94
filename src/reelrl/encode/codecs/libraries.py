"""Finding encoder libraries inside the wheels that carry them, without importing those wheels."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from reelrl.errors import EncoderMissing


def find_library(variable: str, wheels: dict[str, str], pattern: str) -> Path:
    """Path of a shared library.

    `variable` names an environment variable that overrides the search; `wheels` maps an importable module to the
    folder beside it that holds its libraries.
    """
    if chosen := os.environ.get(variable):
        if not Path(chosen).is_file():
            raise EncoderMissing(f"{variable} = {chosen} is no file; point it at the library or unset it")
        return Path(chosen)
    for module, folder in wheels.items():
        spec = find_spec(module)
        if spec is None or spec.origin is None:
            continue
        if files := sorted((Path(spec.origin).parent.parent / folder).glob(pattern)):
            return files[0]
    raise EncoderMissing(
        f"no {pattern} in the wheels of {', '.join(wheels)}; install the wheel, not a build from source, "
        f"or set {variable}"
    )


def parse_version(text: str) -> tuple[int, int, int]:
    """(4, 1, 0) of "v4.1.0-12-gabc"."""
    numbers = text.lstrip("v").split("-")[0].split(".")
    try:
        major, minor, patch = (int(n) for n in (*numbers, "0", "0")[:3])
    except ValueError:
        raise EncoderMissing(f"encoder library calls itself version {text!r}, which is no version") from None
    return major, minor, patch
