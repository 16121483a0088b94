"""Speed of the encoder layer, as ratios in one run.

    python benchmarks/encode_speed.py

Each figure is the least CPU time per frame over interleaved repeats: three streams each in a process of its own. CIF,
low delay, fixed QP, one encoder thread.

  bare   our send/receive loop without reconstruction, against PyAV's libsvtav1 with the same settings (same bytes)
  full   a QP and a random superblock map per frame, reconstruction and PSNR, against bare
  late   frames of the last quarter of a long stream against those of the first; and the memory it grew by

PyAV locks up now and then on a busy machine (see `resting_threads`); such a run is killed and counted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.content import open_clip
from reelrl.encode import EncoderSession, EncoderSettings, normal_scheduling

if TYPE_CHECKING:
    from reelrl.content.frame import Frame

CLIP = "generated:street?size=352x288&frames={frames}&seed=7"
FRAMES = 120
LONG = 1200
STREAMS = 3  # per process: the first one pays for cold caches
LIMIT_S = 60


def settings(backend: str, preset: int, *, full: bool) -> EncoderSettings:
    return EncoderSettings(
        backend=backend, width=352, height=288, preset=preset, picture_qp=full, recon=full, psnr=full
    )


def ours(backend: str, preset: int, frames: list[Frame], *, full: bool) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    chosen = settings(backend, preset, full=full)
    maps = rng.integers(-3, 4, (len(frames), chosen.superblocks))
    size, psnr = 0, 0.0
    with EncoderSession(chosen) as session:
        session.send(frames[0])
        session.receive()  # the first frame warms caches up
        started = time.process_time()
        for number, frame in enumerate(frames[1:], 1):
            if full:
                session.send(frame, qp=40, offsets=maps[number])
            else:
                session.send(frame)
            for packet in session.receive():
                size += packet.size
                if full:
                    psnr += packet.psnr[0]
        used = time.process_time() - started
    return {"ms": used / (len(frames) - 1) * 1e3, "bytes": size}


def pyav(preset: int, frames: list[Frame]) -> dict[str, Any]:
    import av

    pictures = []
    for number, frame in enumerate(frames):
        picture = av.VideoFrame.from_ndarray(frame.data.reshape(-1, frame.width), format="yuv420p")
        picture.pts, picture.time_base = number, Fraction(1, 30)
        pictures.append(picture)
    codec: Any = av.CodecContext.create("libsvtav1", "w")
    codec.width, codec.height, codec.pix_fmt = 352, 288, "yuv420p"
    codec.time_base, codec.framerate = Fraction(1, 30), Fraction(30)
    same = "pred-struct=1:rtc=1:rc=0:aq-mode=0:qp=40:keyint=-1:scd=0:enable-tf=0:lp=1:hierarchical-levels=0"
    codec.options = {"preset": str(preset), "svtav1-params": same}
    with normal_scheduling():
        codec.open()
    codec.encode(pictures[0])
    started, size = time.process_time(), 0
    for picture in pictures[1:]:
        size += sum(packet.size for packet in codec.encode(picture))
    return {"ms": (time.process_time() - started) / (len(frames) - 1) * 1e3, "bytes": size}


def long_stream(backend: str, preset: int, frames: list[Frame]) -> dict[str, Any]:
    """CPU time per frame by quarters of a long stream, and the growth of memory from the second quarter on."""
    quarter = LONG // 4
    marks, memory = [], []
    with EncoderSession(settings(backend, preset, full=True)) as session:
        for number in range(LONG):
            if number % quarter == 0:
                marks.append(time.process_time())
                memory.append(resident_mb())
            # There and back again, so that every quarter holds the same pictures.
            session.send(frames[number % len(frames)], qp=40)
            session.receive()
        marks.append(time.process_time())
        memory.append(resident_mb())
    quarters = np.diff(marks) / quarter * 1e3
    return {"first": quarters[0], "last": quarters[-1], "grew_mb": memory[-1] - memory[1]}


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def measure(what: str, backend: str, preset: int) -> dict[str, Any]:
    frames = list(open_clip(CLIP.format(frames=FRAMES)))
    if what == "long":
        return long_stream(backend, preset, frames)
    streams = (
        pyav(preset, frames) if what == "pyav" else ours(backend, preset, frames, full=what == "full")
        for _ in range(STREAMS)
    )
    return min(streams, key=lambda stream: float(stream["ms"]))


def in_process(what: str, backend: str, preset: int) -> dict[str, Any] | None:
    """One measurement in a fresh process; None when it hung and was killed."""
    command = [sys.executable, __file__, "--one", what, backend, str(preset)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    except subprocess.TimeoutExpired:
        return None
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def compare(backend: str, preset: int, whats: list[str], repeats: int) -> None:
    best: dict[str, dict[str, Any]] = {}
    hung = dict.fromkeys(whats, 0)
    for _ in range(repeats):
        for what in whats:
            found = in_process(what, backend, preset)
            if found is None:
                hung[what] += 1
            elif what not in best or found["ms"] < best[what]["ms"]:
                best[what] = found
    row = f"{backend:7} preset {preset:2}  " + "  ".join(
        f"{what} {best[what]['ms']:.2f} ms" for what in whats if what in best
    )
    if "pyav" in best:
        row += f"   bare {best['pyav']['ms'] / best['bare']['ms']:.2f} x PyAV's speed"
        row += ", same bytes" if best["pyav"]["bytes"] == best["bare"]["bytes"] else ", OTHER bytes"
    row += f"   full {best['bare']['ms'] / best['full']['ms']:.2f} x bare"
    if any(hung.values()):
        row += f"   locked up: {hung}"
    print(row, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", nargs=3, metavar=("WHAT", "BACKEND", "PRESET"), help=argparse.SUPPRESS)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    if args.one:
        what, backend, preset = args.one
        print(json.dumps(measure(what, backend, int(preset))))
        return
    for preset in (8, 10, 12):
        compare("svtav1", preset, ["bare", "pyav", "full"], args.repeats)
    compare("aom", 6, ["bare", "full"], max(2, args.repeats // 2))
    for backend, preset in (("svtav1", 10), ("aom", 6)):
        found = in_process("long", backend, preset)
        if found is not None:
            print(
                f"{backend:7} preset {preset:2}  {LONG} frames: the last quarter takes "
                f"{found['last'] / found['first']:.2f} x the first's time per frame, "
                f"memory {found['grew_mb']:+.1f} MB from the second quarter on"
            )


if __name__ == "__main__":
    main()
