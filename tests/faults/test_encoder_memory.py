"""What sessions take they give back, and they read nothing that is not theirs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.encode.makers import BACKENDS, STRUCTURES, run_python

pytestmark = pytest.mark.slow

NOTHING = {"threads": 0, "files": 0, "other_classes": 0}


def growth(call: str) -> dict[str, float]:
    done = run_python(f"from tests.faults.leaks import *; {call}", timeout_s=300)
    assert done.returncode == 0, done.stderr
    grown: dict[str, float] = json.loads(done.stdout)
    return grown


# Forty sessions that each kept their five megabytes would show; the long run looks for less.
@pytest.mark.parametrize("sessions", [30, pytest.param(200, marks=pytest.mark.long)])
@pytest.mark.parametrize(("backend", "structure"), STRUCTURES)
def test_aborted_sessions_leave_nothing_behind(backend: str, structure: str, sessions: int) -> None:
    grown = growth(f"aborted({backend!r}, {structure!r}, {sessions})")
    assert grown.pop("mib") < 20  # a session takes more than five
    assert grown == NOTHING


@pytest.mark.parametrize("frames", [350, pytest.param(2000, marks=pytest.mark.long)])
@pytest.mark.parametrize(("backend", "structure"), STRUCTURES)
def test_memory_stays_flat_over_a_long_stream(backend: str, structure: str, frames: int) -> None:
    grown = growth(f"long_stream({backend!r}, {structure!r}, {frames})")
    assert grown.pop("mib") < 3
    assert grown == NOTHING


@pytest.mark.parametrize("backend", BACKENDS)
def test_refused_sessions_leave_nothing_behind(backend: str) -> None:
    grown = growth(f"refused({backend!r})")
    # The last one's exception may still hold its statistics, 5 MB; a hundred of them would be 500.
    assert grown.pop("mib") < 40
    assert grown == NOTHING


SIZES = (((64, 64), 10), ((130, 98), 12), ((66, 50), 8))
SMALL = (((64, 64), 10), ((126, 144), 13), ((160, 96), 9), ((128, 128), 10))
VBR = {"rate_control": "vbr", "target_kbps": 100.0, "keyint": 30, "first_pass": True}


@pytest.mark.parametrize(
    ("backend", "structure", "sizes", "mode"),
    [
        *((*pair, SIZES, {}) for pair in STRUCTURES),
        ("svtav1", "random_access", SMALL, VBR),
        ("aom", "low_delay", SMALL, VBR),
    ],
)
def test_encoders_read_nothing_outside_a_frame(backend: str, structure: str, sizes: Any, mode: dict[str, Any]) -> None:
    # SVT-AV1's first pass did: it halves small pictures as if they were larger, and sometimes crashed.
    jobs = [{"backend": backend, "structure": structure, "size": size, "preset": p} | mode for size, p in sizes]
    done = run_python(f"from tests.faults.guarded import main; main({json.dumps(jobs)!r})")
    assert (done.returncode, len(done.stdout.split())) == (0, len(jobs)), done.stderr
