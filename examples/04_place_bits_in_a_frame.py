"""Place QP offsets on the superblocks of each frame: the environment with a state and a reward of one's own.

python examples/04_place_bits_in_a_frame.py [FOLDER]      writes last.ivf there
"""

import sys
from pathlib import Path

import gymnasium
import numpy as np

import reelrl  # noqa: F401 - registers the ids
from reelrl.encode import AbstractState


class Texture(AbstractState):
    """The luma variance of every superblock, and how far the clip has come."""

    def get_observation(self, frame, sbs, frame_type, picture_number):  # noqa: ARG002 - not all is needed
        variances = [
            frame.y[sb["sb_org_y"] :, sb["sb_org_x"] :][: sb["sb_height"], : sb["sb_width"]].var() for sb in sbs
        ]
        return np.array([*variances, picture_number], np.float32)

    def get_observation_length(self):
        return self.superblocks + 1


def thrifty(outcome):
    """Decibels above the baseline, less what the extra bytes cost."""
    gain = outcome.psnr[0] - outcome.baseline_psnr[0]
    return gain - 2.0 * (outcome.size_bytes / outcome.baseline_size_bytes - 1)


env = gymnasium.make(
    "reelrl/SuperblockQP-v0", video_path="generated:talk?size=192x128&frames=10", state=Texture, reward=thrifty
).unwrapped

for name, choose in (
    ("no map", lambda _seen: None),
    ("flat parts finer", lambda seen: np.where(seen[:-1] > np.median(seen[:-1]), 4, 2)),
    ("busy parts finer", lambda seen: np.where(seen[:-1] > np.median(seen[:-1]), 2, 4)),
):
    observation, _ = env.reset(seed=0)
    ended = False
    while not ended:
        observation, _, ended, _, info = env.step(choose(observation))
    totals = env.episode_record()["totals"]
    print(f"{name:<17} {totals['bytes']:6} bytes   {totals['psnr_y']:.2f} dB   reward {totals['reward']:+.2f}")

env.save_bitstream_to_file(Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "last.ivf")
assert env.replay(env.episode_record())  # the same bytes again, or an error
env.close()
