"""What the superblock environment costs over the bare session, as ratios in one run.

    python benchmarks/superblock_env.py

Each figure is the least CPU time per frame over interleaved repeats: low delay, fixed QP, one encoder thread, a random
map with every frame. The bare loop does the work of a frame that nobody is spared: send, receive, PSNR of three planes.
Features, first pass and baseline are cached, as in every episode after the first.

  share  speed of the environment over that of the bare loop, 1.00 is as fast
  late   time per step in the last quarter of the clip over that in the first, beside the same of the bare loop
  flat   time of the last two episodes over that of the first two, and the memory that grew from the third on
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from reelrl.content import open_clip
from reelrl.encode import EncoderSession, EncoderSettings, SuperblockQpEnv
from reelrl.encode.coding import first_pass, wants_statistics

if TYPE_CHECKING:
    from numpy.typing import NDArray

CLIP = "generated:street?size={size}&frames={frames}&seed=7"


class Bare:
    """Send, receive, PSNR; nothing else."""

    def __init__(self, env: SuperblockQpEnv) -> None:
        self.settings = env.settings
        self.frames = list(env.clip)
        self.statistics = first_pass(env.clip, env.settings) if wants_statistics(env.settings) else None

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
    rich = SuperblockQpEnv(clip, encoder=replace(settings), state="feedback", reward="weighted", weights="moving")
    maps = np.random.default_rng(0).integers(0, 7, (frames, env.superblocks))
    bare = Bare(env)
    runs: dict[str, list[NDArray[np.float64]]] = {"bare": [], "env": [], "rich": []}
    memory = []
    for _ in range(repeats):
        memory.append(resident_mb())
        runs["bare"].append(bare.episode(maps))
        runs["env"].append(env_episode(env, maps))
        runs["rich"].append(env_episode(rich, maps))
    # The last frame of an episode also closes the encoder; the bare loop does that outside the clock.
    ms = {name: min(run[1:-1].mean() for run in found) * 1e3 for name, found in runs.items()}
    quarter = frames // 4
    best = {name: np.min(found, axis=0) for name, found in runs.items()}
    late = {name: times[-quarter - 1 : -1].mean() / times[1 : quarter + 1].mean() for name, times in best.items()}
    flat = min(run[:-1].sum() for run in runs["env"][-2:]) / min(run[:-1].sum() for run in runs["env"][:2])
    grew = resident_mb() - memory[min(2, repeats - 1)]
    print(
        f"{backend:7} {size:8} bare {ms['bare']:6.2f} ms  env {ms['env']:6.2f} ms  share {ms['bare'] / ms['env']:.3f}"
        f"   feedback+weighted {ms['rich']:6.2f} ms  share {ms['bare'] / ms['rich']:.3f}"
        f"   late {late['env']:.2f} (bare {late['bare']:.2f})  flat {flat:.2f}, {grew:+.1f} MB",
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
