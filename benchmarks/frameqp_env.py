"""What asking before every frame costs above libaom alone, bare and as an environment: CPU time, best of N.

python benchmarks/frameqp_env.py [--repeats 5]

Everybody codes the same bytes: libaom's own quantisers at one QP, observed once.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np

from reelrl.content.sources import open_clip
from reelrl.encode.codecs.aom.api import LAST_PASS
from reelrl.encode.codecs.aom.first_pass import TWO_PASS, opened, set_modes, two_pass_statistics
from reelrl.encode.codecs.aom.two_pass import TwoPassSession
from reelrl.encode.frameqp.env import FrameQpEnv

CLIPS = ("generated:street?size=176x144&frames=97", "generated:street?size=352x288&frames=49")
QP = 38


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    for name in CLIPS:
        clip = open_clip(name).load()
        settings = replace(TWO_PASS, qp=QP).for_clip(clip)
        statistics = two_pass_statistics(clip, settings)
        with TwoPassSession(clip, settings, statistics, steered=False) as session:
            session.request()
        qindexes, size = [frame.qindex for frame in session.coded], sum(packet.size for packet in session.packets)
        env = FrameQpEnv(clip)
        kbps = env._prepared[0].kbps_at(QP)
        env.reset(seed=0, options={"kbps": kbps})  # probes and the rule's encode are made, and held
        alone, bare, steered = [], [], []
        for _ in range(repeats):
            started = time.process_time()
            sizes = _alone(clip, settings, statistics)
            alone.append(time.process_time() - started)
            started = time.process_time()
            with TwoPassSession(clip, settings, statistics, keep_delta_q=True) as session:
                for qindex in qindexes:
                    session.request()
                    session.reply(qindex)
                session.request()
            bare.append(time.process_time() - started)
            if not size == sizes == sum(packet.size for packet in session.packets):
                raise SystemExit("the streams differ: nothing to compare")
            started = time.process_time()
            env.reset(seed=0, options={"kbps": kbps})
            ended = False
            while not ended:
                *_, ended, _, _ = env.step(np.zeros(1, np.float32))
            steered.append(time.process_time() - started)
            if env.episode_record()["totals"]["bytes"] != size:
                raise SystemExit("the environment coded other bytes: nothing to compare")
        env.close()
        frames = clip.frame_count
        print(name)
        for label, seconds in (("libaom alone", alone), ("bare loop", bare), ("environment", steered)):
            ratio = min(alone) / min(seconds)
            print(f"{label:14}{1000 * min(seconds) / frames:8.2f} ms per frame   {ratio:.3f} of libaom's speed")


def _alone(clip, settings, statistics) -> int:  # type: ignore[no-untyped-def]
    """Bytes of the second pass without any callback, and without a look at what it gives."""
    context, total = opened(settings, LAST_PASS, statistics), 0
    try:
        set_modes(context, settings, inner_delta_q=True)
        for number, frame in enumerate(clip):
            context.encode(frame, number)
            total += sum(len(packet.data) for packet in context.packets())
        while True:
            context.encode(None, 0)
            ready = context.packets()
            total += sum(len(packet.data) for packet in ready)
            if not ready:
                return total
    finally:
        context.close()


if __name__ == "__main__":
    main()
