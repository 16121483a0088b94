"""Small clips, settings and streams for the tests of the encoder layer."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl import names
from reelrl.content.clip import Clip
from reelrl.content.frame import Frame
from reelrl.content.generated.clips import generated_clip
from reelrl.content.quality import vmaf_program
from reelrl.encode import EncoderSession, EncoderSettings, capabilities
from tests.waiting import HANG_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from reelrl.encode.codecs.packet import Packet
    from reelrl.encode.codecs.session import Session
    from reelrl.encode.codecs.whole_clip import Decision

BACKENDS = tuple(names.BACKENDS)
STRUCTURES = tuple(
    (backend, structure)
    for backend in BACKENDS
    for structure in ("low_delay", "random_access")
    if structure == "low_delay" or capabilities(backend).random_access
)
"""Every pair of encoder and prediction structure that exists."""

WIDTH, HEIGHT = 128, 96
SUPERBLOCKS = 4


@cache
def scene(style: str = "street", frames: int = 12, size: tuple[int, int] = (WIDTH, HEIGHT), seed: int = 0) -> Clip:
    """A generated clip, drawn once and kept in memory."""
    return generated_clip(style, size=size, frames=frames, seed=seed).load()


@cache
def deep_scene(style: str = "street", frames: int = 6, size: tuple[int, int] = (WIDTH, HEIGHT)) -> Clip:
    """A generated clip in 10 bits, with noise in the two that 8 bits do not have."""
    rng = np.random.default_rng(0)
    deep = [frame.at_depth(10) for frame in scene(style, frames, size)]
    noisy = [Frame(frame.data + rng.integers(0, 4, frame.data.size, np.uint16), *size) for frame in deep]
    return Clip.from_frames(noisy, fps=30, name=f"{style} in 10 bits")


def settings_for(clip: Clip, backend: str, structure: str = "low_delay", **changes: Any) -> EncoderSettings:
    """Quick settings of a clip's size; random access with mini-GOPs of four."""
    usual: dict[str, Any] = {"preset": 10, "deadline_s": HANG_S}
    if structure == "random_access":
        usual["hierarchical_levels"] = 2
    return EncoderSettings(backend=backend, structure=structure, **usual | changes).for_clip(clip)  # type: ignore[arg-type]


def coded(
    frames: Iterable[Frame],
    settings: EncoderSettings,
    decide: Callable[[int], Decision] | None = None,
    kind: type[Session] = EncoderSession,
    **opening: Any,
) -> list[Packet]:
    """All packets of a stream."""
    packets: list[Packet] = []
    with kind(settings, **opening) as session:
        for number, frame in enumerate(frames):
            session.send(frame, **(decide(number) if decide else {}))
            packets += session.receive()
        packets += session.flush()
    return packets


def bytes_of(packets: Sequence[Packet]) -> bytes:
    return b"".join(packet.data for packet in packets)


def random_decisions(frames: int, superblocks: int, seed: int = 0) -> list[Decision]:
    """A QP of its own and a map of its own for every frame."""
    rng = np.random.default_rng(seed)
    return [
        {"qp": int(rng.integers(8, 58)), "offsets": rng.integers(-3, 4, superblocks, np.int32)} for _ in range(frames)
    ]


def squared_error(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> int:
    """Sum of squared differences, the slow and obvious way."""
    return int(((a.astype(np.int64) - b.astype(np.int64)) ** 2).sum())


def quantisers(stream: Path) -> list[int]:
    """Quantiser index of each picture in display order, as FFmpeg reads them from the headers; one key frame."""
    command = [vmaf_program(), "-i", str(stream), "-c", "copy", "-bsf:v", "trace_headers", "-f", "null", "-"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    found: dict[int, int] = {}
    cycles, number = 0, 0
    for name, value in re.findall(r"\] \d+ +(order_hint|base_q_idx) +[01]+ = (\d+)", told):
        if name == "base_q_idx":
            found[number] = int(value)
            continue
        # Order hints count to 127: the nearest number to the picture before.
        number = min((int(value) + 128 * (cycles + step) for step in (-1, 0, 1)), key=lambda n: abs(n - number))
        cycles = number // 128
    return [found[number] for number in sorted(found)]


def thread_count() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def threads_fall_to(count: int, within_s: float = HANG_S) -> bool:
    """Whether no more than `count` threads are left soon; a joined thread may take a moment to leave the system."""
    give_up = time.monotonic() + within_s
    while thread_count() > count and time.monotonic() < give_up:
        time.sleep(0.002)
    return thread_count() <= count


def all_threads_rest(which: str = "*") -> bool:
    """Whether every other thread of this process sleeps, at ten looks in a row: none of them has work or a turn."""
    own = threading.get_native_id()
    for _ in range(10):
        for task in Path("/proc/self/task").glob(which):
            with suppress(FileNotFoundError, ProcessLookupError):
                if int(task.name) != own and (task / "stat").read_text().rpartition(")")[2].split()[0] != "S":
                    return False
        time.sleep(0.001)
    return True


def hurry(session: Session, deadline_s: float) -> None:
    """A shorter deadline from here on: on a busy machine to open an encoder takes longer than a test wants to wait."""
    session.settings = replace(session.settings, deadline_s=deadline_s)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def run_python(
    code: str, *, timeout_s: float = HANG_S, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program of its own; libraries are loaded once per process, so a broken one needs a fresh process."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env={**os.environ, **(environment or {})},
        check=False,
    )
