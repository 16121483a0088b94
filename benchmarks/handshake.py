"""What the file handshake costs: round trips between two processes, and a core's share while one waits.

    python benchmarks/handshake.py [--folder DIR]

A trainer in a process of its own answers every request at once. The encoder's side asks after a pause that stands for
coding. `trip` is from the call of `ask` to the QP, writing and reading of both files included; `idle` the CPU share of
a trainer that waits for a request. Both with events of the folder, and without as on a network disk, where the trainer
looks for a request ever more rarely: after an eighth of the time it has waited, ten times a second at least.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from reelrl.encode.handshake.encoder_side import HandshakeEncoder
from reelrl.encode.handshake.folder import TRAINER, HandshakeFolder
from reelrl.encode.minigop.protocols import MiniGopRequest

IDLE_S = 10.0
DEAF = "import reelrl.storage.folder_events as events; events._watch = lambda _folder: -1\n"
ANSWERER = """
import sys
from reelrl.encode.handshake.folder import HandshakeFolder, TRAINER
folder, count = HandshakeFolder(sys.argv[1]), int(sys.argv[2])
lock = folder.lock(TRAINER)
print("ready", flush=True)
for mg in range(count):
    request = folder.wait(mg, "rq", 60)
    folder.write(mg, "qp", {"qp": request["base_qp"], "session": request["session"]})
"""
IDLER = """
import sys, time
from reelrl.encode.handshake.folder import HandshakeFolder
cpu, wall = time.process_time(), time.monotonic()
HandshakeFolder(sys.argv[1]).wait(0, "rq", float(sys.argv[2]))
print((time.process_time() - cpu) / (time.monotonic() - wall))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", help="where to make the folders; the kind of disk counts (default: the system's)")
    where = parser.parse_args().folder
    for heard in (True, False):
        print("events of the folder" if heard else "no events")
        for pause_s, count in ((0.0, 1000), (0.005, 400), (0.05, 100), (0.5, 20)):
            with tempfile.TemporaryDirectory(dir=where) as folder:
                trips_ms = 1000 * trips(Path(folder), pause_s, count, "" if heard else DEAF)
            middle, late = np.percentile(trips_ms, (50, 95))
            print(f"trip   after {1000 * pause_s:3.0f} ms   median {middle:.2f} ms   p95 {late:.2f} ms   {count} trips")
        with tempfile.TemporaryDirectory(dir=where) as folder:
            command = [sys.executable, "-c", ("" if heard else DEAF) + IDLER, folder, str(IDLE_S)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        print(f"idle   {100 * float(done.stdout):.2f} % of a core, over {IDLE_S:g} s")


def trips(folder: Path, pause_s: float, count: int, before: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Seconds of each round trip; the trainer's process runs the lines of `before` first."""
    spent_s = np.zeros(count)
    with HandshakeEncoder(folder) as trainer:
        command = [sys.executable, "-c", before + ANSWERER, str(folder), str(count)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as answerer:
            assert answerer.stdout is not None
            assert answerer.stdout.readline() == "ready\n"
            for mg in range(count):
                time.sleep(pause_s)
                begin = time.perf_counter()
                trainer.ask(request(mg))
                spent_s[mg] = time.perf_counter() - begin
    assert trainer.fallbacks == 0
    assert not HandshakeFolder(folder).someone_is(TRAINER)
    return spent_s


def request(mg: int) -> MiniGopRequest:
    """As large as `reel-encoder` makes them in random access."""
    features = dict.fromkeys(("intra", "inter", "motion", "inter_last", "scene_cut"), 1.0 / 3)
    return MiniGopRequest(mg, 0, 16 * mg, 16, 40, (40,) * 16, 1e6, 10_000, features)


if __name__ == "__main__":
    main()
