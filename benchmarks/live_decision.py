"""How long live coding takes to decide a frame's QP: from the look at it to the QP, and to have learnt what it took.

python benchmarks/live_decision.py              320x180, both predictors, the look itself, whether a frame is drawn,
                                                and a new session, as at a cut
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from reelrl.content.generated.clips import generated_clip
from reelrl.encode.codecs.session import EncoderSession
from reelrl.encode.live.coding import LIVE, predictor
from reelrl.encode.live.controller import LiveController
from reelrl.encode.live.drawn import is_drawn
from reelrl.encode.live.frame_look import FrameLooker

ROUNDS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="320x180", help="of the pictures (default 320x180)")
    width, height = (int(part) for part in parser.parse_args().size.split("x"))
    clip = generated_clip("street", size=(width, height), frames=40)
    frames = list(clip)
    look_s, looks = [], []
    looker = FrameLooker(width, height)
    for frame in frames:
        begin_s = time.perf_counter()
        looks.append(looker.look(frame))
        look_s.append(time.perf_counter() - begin_s)
    print(f"look      {np.median(look_s) * 1e6:6.0f} us a frame")
    drawn_s = []
    for frame in frames:
        begin_s = time.perf_counter()
        is_drawn(frame)
        drawn_s.append(time.perf_counter() - begin_s)
    print(f"drawn     {np.median(drawn_s) * 1e6:6.0f} us a frame, in cbr alone")
    open_s = []
    for _ in range(ROUNDS):
        begin_s = time.perf_counter()
        with EncoderSession(LIVE.for_clip(clip)):
            open_s.append(time.perf_counter() - begin_s)
    print(f"session   {np.median(open_s) * 1e6:6.0f} us, once a scene")
    for name in ("rule", "learned"):
        controller = LiveController(fps=30.0, kbps=300, buffer_s=1.0, bits=predictor(name, width * height))
        decide_s = []
        for look in looks * ROUNDS:
            begin_s = time.perf_counter()
            controller.learn(controller.decide(look), 9000)
            decide_s.append(time.perf_counter() - begin_s)
        median, late = (1e6 * np.quantile(decide_s, share) for share in (0.5, 0.99))
        print(f"{name:9} {median:6.0f} us a decision, 99 % below {late:.0f}")


if __name__ == "__main__":
    main()
