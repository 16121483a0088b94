"""Train maps inside frames with PPO of Stable-Baselines3, and judge them by BD-rate on a clip that was not learned on.

The viewer looks at the centre: quality is PSNR with the centre weighed more. The agent chooses the weights of a few
features of each superblock, so that what it learns fits clips of any size.

python examples/05_train_superblock_maps.py      needs [train]; about twenty seconds
"""

import math

from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

from reelrl.encode import EncoderSettings, SuperblockQpEnv
from reelrl.report.bd_rate import Point, bd_rate

LEARN_ON = ("generated:street?size=192x128&frames=8&seed=1", "generated:pan?size=192x128&frames=8&seed=2")
JUDGE_ON = "generated:talk?size=256x128&frames=8&seed=3"


def gain(outcome):
    """Decibels above no map, less what its bytes would have bought: about 4 dB for twice the bytes."""
    bytes_doubled = math.log2(outcome.size_bytes / outcome.baseline_size_bytes)
    return outcome.weighted_psnr - outcome.baseline_weighted_psnr - 4 * bytes_doubled


def make_env(clip, qp=44):
    encoder = EncoderSettings(backend="aom", picture_qp=True, qp=qp)
    return SuperblockQpEnv(
        clip, state="summary", action="features", reward=gain, weights="centre", encoder=encoder, max_frames=8
    )


def play(qp, agent=None):
    """Rate and quality of one episode; without an agent no map is sent."""
    env = make_env(JUDGE_ON, qp)
    observation, _ = env.reset(seed=0)
    sizes, qualities, ended = [], [], False
    while not ended:
        action = None if agent is None else agent.predict(observation, deterministic=True)[0]
        observation, _, ended, _, info = env.step(action)
        sizes.append(info["bitstream_size"])
        qualities.append(env.outcome.weighted_psnr)
    env.close()
    return Point(sum(sizes) * 8 * float(env.clip.fps) / len(sizes) / 1000, sum(qualities) / len(qualities))


envs = DummyVecEnv([lambda clip=clip: make_env(clip) for clip in LEARN_ON])
agent = PPO("MlpPolicy", envs, n_steps=64, batch_size=64, gamma=0.0, learning_rate=3e-3, seed=0).learn(384)
envs.close()

qps = (32, 38, 44, 50)
verdict = bd_rate([play(qp) for qp in qps], [play(qp, agent) for qp in qps])
print(f"BD-rate {verdict.percent:+.2f} % bits at equal centre-weighted PSNR, against no map", *verdict.doubts)
