"""What the superblock environment costs over the bare session, as ratios in one run.

    python benchmarks/superblock_env.py

Each figure is the least CPU time of every frame over interleaved repeats: low delay, fixed QP, one encoder thread, a
random map with every frame. The bare loop does the work of a frame that nobody is spared: send, receive, PSNR of three
planes; for the `feedback` state with the `weighted` reward, also weighted PSNR and errors per superblock.
Features, first pass and baseline are cached, as in every episode after the first.

  share  speed of the environment over that of the bare loop, 1.00 is as fast
  late   time per step in the last quarter of the clip over that in the first
  flat   time of the last two episodes over that of the first two, and the memory that grew from the third on
  (...)  the same of the bare loop
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from reelrl.content import open_clip
from reelrl.encode import EncoderSession, EncoderSettings, SuperblockQpEnv
from reelrl.encode.codecs.whole_clip import first_pass, wants_statistics
from reelrl.encode.superblock.block_error import block_sse
from reelrl.encode.superblock.weighting import weighted_psnr

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

CLIP = "generated:street?size={size}&frames={frames}&seed=7"


class Bare:
    """Send, receive, PSNR; nothing else."""

    def __init__(self, env: SuperblockQpEnv) -> None:
        self.settings = env.settings
        self.frames = list(env.clip)
        self.statistics = first_pass(env.clip, env.settings) if wants_statistics(env.settings) else None
        self.weights = env.prepared.weight_maps

    def episode(self, maps: NDArray[np.int64]) -> NDArray[np.float64]:
        """CPU seconds of each frame."""
        marks = []
        offsets = maps.astype(np.int32) - 3
        with EncoderSession(self.settings, statistics=self.statistics) as session:
            marks.append(time.process_time())
            for frame, chosen in zip(self.frames, offsets, strict=True):
                session.send(frame, offsets=chosen)
                (packet,) = session.receive()
                assert packet.psnr[0] > 0
                if self.weights is not None and packet.recon is not None:
                    assert weighted_psnr(frame, packet.recon, self.weights.frame(packet.number)) > 0
                    assert block_sse(frame.y, packet.recon.y).size
                marks.append(time.process_time())
        return np.diff(marks)


def env_episode(env: SuperblockQpEnv, maps: NDArray[np.int64]) -> NDArray[np.float64]:
    env.reset()
    marks = [time.process_time()]
    for chosen in maps:
        env.step(chosen)
        marks.append(time.process_time())
    return np.diff(marks)


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def measure(backend: str, size: str, frames: int, repeats: int) -> None:
    settings = EncoderSettings(backend=backend, picture_qp=True)
    clip = open_clip(CLIP.format(size=size, frames=frames)).load()
    env = SuperblockQpEnv(clip, encoder=settings)
    rich = SuperblockQpEnv(clip, encoder=settings, state="feedback", reward="weighted", weights="moving")
    maps = np.random.default_rng(0).integers(0, 7, (frames, env.superblocks))
    players: dict[str, Callable[[NDArray[np.int64]], NDArray[np.float64]]]
    players = {"bare": Bare(env).episode, "env": partial(env_episode, env)}
    players |= {"rich bare": Bare(rich).episode, "rich": partial(env_episode, rich)}
    runs: dict[str, list[NDArray[np.float64]]] = {name: [] for name in players}
    memory = []
    for _ in range(repeats):
        memory.append(resident_mb())
        for name, play in players.items():
            runs[name].append(play(maps))
    best = {name: np.min(found, axis=0) for name, found in runs.items()}
    # The last frame of an episode also closes the encoder; the bare loop does that outside the clock.
    ms = {name: times[1:-1].mean() * 1e3 for name, times in best.items()}
    quarter = frames // 4
    late = {name: times[-quarter - 1 : -1].mean() / times[1 : quarter + 1].mean() for name, times in best.items()}
    sums = {name: [run[:-1].sum() for run in found] for name, found in runs.items()}
    flat = {name: min(found[-2:]) / min(found[:2]) for name, found in sums.items()}
    grew = resident_mb() - memory[min(2, repeats - 1)]
    print(
        f"{backend:7} {size:8} bare {ms['bare']:6.2f} ms  env {ms['env']:6.2f} ms  share {ms['bare'] / ms['env']:.3f}"
        f"   feedback+weighted {ms['rich']:6.2f} ms  share {ms['rich bare'] / ms['rich']:.3f}"
        f"   late {late['env']:.2f} ({late['bare']:.2f})  flat {flat['env']:.2f} ({flat['bare']:.2f}), {grew:+.1f} MB",
        flush=True,
    )
    env.close()
    rich.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--frames", type=int, default=60)
    args = parser.parse_args()
    for size in ("176x144", "352x288"):
        for backend in ("svtav1", "aom"):
            measure(backend, size, args.frames, args.repeats)


if __name__ == "__main__":
    main()
