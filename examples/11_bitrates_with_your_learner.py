"""Learn bitrates with Stable-Baselines3's PPO on the default environment, and watch it come near BOLA.

Two settings matter in a first try: rewards divided by their spread (a stall costs 4.3 a second, so returns reach -100
and drown the policy's gradient in the critic's), and a horizon of about a buffer's length. It is judged on links that
it did not learn from, every 20,000 steps.

python examples/11_bitrates_with_your_learner.py      needs [train]; about half a minute
"""

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from reelrl.stream import load_bitrate_controller, read_ladder
from reelrl.stream.data.generated_traces import mobile_trace
from reelrl.stream.playback import play

LINKS = [mobile_trace(np.random.default_rng(seed), name=f"link-{seed}") for seed in range(30)]
RULES = ("lowest", "bola", "robustmpc")


def make():
    return gymnasium.make("reelrl:reelrl/Abr-v0")


class Learned:
    """What the learner would do now, as a controller."""

    privileged = False

    def __init__(self, model):
        self.model = model

    def reset(self, seed, episode):
        """Nothing to remember."""

    def act(self, observation):
        return int(self.model.predict(observation, deterministic=True)[0])


def qoe(controller):
    return np.mean([play(controller, link, read_ladder("nominal"), preset=None).qoe for link in LINKS])


torch.set_num_threads(1)  # a net this small is slower on several
envs = VecNormalize(DummyVecEnv([make] * 8), norm_obs=False)
model = PPO("MlpPolicy", envs, n_steps=128, batch_size=256, gamma=0.97, seed=0, device="cpu")
for step in range(0, 80_001, 20_000):
    if step:
        model.learn(20_000, reset_num_timesteps=False)
    print(f"step {step:>6}   QoE {qoe(Learned(model)):5.2f}", flush=True)
for name in RULES:
    print(f"{name:<11}   QoE {qoe(load_bitrate_controller(name)):5.2f}")
