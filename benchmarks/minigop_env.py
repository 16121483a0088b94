"""What the mini-GOP environment costs above the bare encoder, and what a decision costs: CPU time, best of N.

python benchmarks/minigop_env.py [--repeats 5]
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from reelrl.content.sources import open_clip
from reelrl.encode import encode_packets
from reelrl.encode.minigop.controllers.rules import RateModel
from reelrl.encode.minigop.env import MiniGopQpEnv
from reelrl.encode.minigop.record import by_number
from reelrl.encode.minigop.run import run_controller
from reelrl.encode.minigop.source.preparation import Preparation

CLIP = "generated:street?size=352x288&frames=97"
KBPS = 300.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    clip = open_clip(CLIP).load()
    prepared, env = Preparation(clip), MiniGopQpEnv(clip, KBPS)
    env.reset(seed=0)  # probes and curves are made, and kept
    bare, steered, decision = [], [], []
    for _ in range(repeats):
        # The same pictures at the same QPs, so that the encoder's own work is equal to the byte.
        started = time.process_time()
        env.reset(seed=0)
        ended = False
        while not ended:
            *_, ended, _, _ = env.step(np.zeros(1, np.float32))
        steered.append(time.process_time() - started)
        record = env.episode_record()
        source = prepared.source(kbps=KBPS)
        source.close()
        started = time.process_time()
        list(encode_packets(clip, source.settings, by_number(source.settings, record["sent_qps"])))
        bare.append(time.process_time() - started)
        run = run_controller(prepared.source(kbps=KBPS), RateModel())
        decision.append(run.think_s / len(run.deltas))
    env.close()
    print(f"bare encode   {1000 * min(bare) / clip.frame_count:8.2f} ms per frame")
    print(f"environment   {1000 * min(steered) / clip.frame_count:8.2f} ms per frame   x{min(steered) / min(bare):.3f}")
    print(f"decision      {1000 * min(decision):8.3f} ms per mini-GOP (rate-model)")


if __name__ == "__main__":
    main()
