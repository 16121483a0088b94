"""Choose bitrates while streaming: train with PPO, write a rule, and compare both with BOLA and the optimum.

python examples/07_choose_bitrates.py      needs [train]; about twenty seconds
"""

import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from reelrl.report.intervals import mean_interval, paired_interval
from reelrl.stream import ABREnv, load_controller, read_ladder
from reelrl.stream.data.generated_traces import mobile_trace
from reelrl.stream.playback import play

ladder = read_ladder("nominal")
links = [mobile_trace(np.random.default_rng(seed), name=f"link-{seed}") for seed in range(46)]
learn_on, judge_on = links[:40], links[40:]

envs = DummyVecEnv([lambda: ABREnv(learn_on, ladder, preset="pensieve", noise=False, state="wide")] * 4)
envs = VecNormalize(envs, norm_obs=False)  # rewards of very different size are put on one scale
model = PPO("MlpPolicy", envs, n_steps=256, batch_size=256, gamma=0.97, seed=0).learn(4_096)  # a real one takes 200 000


class Learned:
    """What was just trained, as a controller."""

    privileged = False

    def reset(self, seed, episode):
        pass

    def act(self, observation):
        return int(model.predict(observation, deterministic=True)[0])


class Cautious:
    """The highest rung that half of the last throughput pays for."""

    privileged = False

    def reset(self, seed, episode):  # noqa: ARG002 - a rule without chance
        self.rates_kbps = episode.video.bitrates_kbps

    def act(self, observation):
        throughput_kbps = observation[2, -1] * 8000  # row 2 is in megabytes per second
        return max(int((self.rates_kbps <= throughput_kbps / 2).sum()) - 1, 0)


controllers = {"learned": Learned(), "cautious": Cautious()}
controllers |= {name: load_controller(name) for name in ("bola", "robustmpc", "oracle")}
qoe = {name: np.array([play(who, link, ladder).qoe for link in judge_on]) for name, who in controllers.items()}
for name, values in qoe.items():
    print(f"{name:<10} QoE {mean_interval(values)}   against bola {paired_interval(values, qoe['bola'])}")
