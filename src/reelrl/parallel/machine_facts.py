"""What machines must have in common so that a task gives the same record on all of them."""

from __future__ import annotations

import platform
import sys
from functools import lru_cache

import numpy as np

from reelrl import __version__, names

LABELS = frozenset({"cpu"})
"""Facts that may differ: they are reported, since floating-point figures may then differ in their last digits."""


@lru_cache(maxsize=1)
def machine_facts() -> dict[str, str]:
    """Of this machine. It takes as long as a small encode with each encoder; the answer is remembered."""
    facts = {
        "reelrl": __version__,
        "python": "{}.{}".format(*sys.version_info[:2]),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "cpu": " ".join(cpu_features()) or "no vector features",
    }
    for name in names.MACHINE_FACTS:
        facts |= names.resolve(names.MACHINE_FACTS, name)()
    return facts


def cpu_features() -> list[str]:
    """The vector instructions that numerical libraries choose their code by."""
    from numpy._core._multiarray_umath import __cpu_features__ as found  # type: ignore[import-not-found]

    return sorted(
        name for name, there in found.items() if there and name.startswith(("AVX", "FMA", "NEON", "SVE", "X86_V"))
    )


def differences(mine: dict[str, str], theirs: dict[str, str]) -> tuple[list[str], list[str]]:
    """What another machine has different: what is reason to refuse it, and what is only reported."""
    different = {
        name: f"{name} is {theirs.get(name, 'unknown')}, here {mine.get(name, 'unknown')}"
        for name in sorted(mine.keys() | theirs.keys())
        if mine.get(name) != theirs.get(name)
    }
    refused = [text for name, text in different.items() if name not in LABELS]
    return refused, [text for name, text in different.items() if name in LABELS]
