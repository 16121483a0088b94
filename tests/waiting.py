"""Waiting for what must happen, on a machine as busy as it likes to be."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

HANG_S = 300.0
"""Nothing takes this long, on any machine: it tells a hang, and measures nothing."""


def until(condition: Callable[[], object], what: str = "it did not happen", within_s: float = HANG_S) -> None:
    """Return once the condition holds."""
    end_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end_s, f"{what} within {within_s:g} s"
        time.sleep(0.005)
