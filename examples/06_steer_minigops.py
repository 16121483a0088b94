"""Spread a bitrate over time: train SAC on mini-GOP QPs, and compare it with the encoder alone and with our rule.

The agent corrects the rule `rate-model`, so that it begins with good rate control. On clips of
four seconds neither beats the encoder; docs/results/minigop.md has whole clips and long trainings.

python examples/06_steer_minigops.py      needs [train]; about half a minute
"""

import gymnasium
import numpy as np
from stable_baselines3 import SAC

import reelrl  # noqa: F401 - registers the ids
from reelrl.report.bd_rate import Point, bd_rate

LEARN_ON = ["generated:street?size=128x96&frames=48&seed=1", "generated:cuts?size=128x96&frames=48&seed=2"]
JUDGE_ON = "generated:cuts?size=128x96&frames=128&seed=3"
RATES_KBPS = (40, 80, 160, 320)


def make_env(clips, guide=None):
    return gymnasium.make("reelrl/MiniGopQP-v0", clips=clips, guide=guide)


def play(env, kbps, choose):
    """Rate and quality of one episode, and how far its rate is off."""
    observation, _ = env.reset(seed=0, options={"kbps": kbps})
    feedback, ended = [], False
    while not ended:
        observation, _, ended, _, info = env.step(choose(observation))
        feedback += info["feedback"]
    frames = sum(coded["frames"] for coded in feedback)
    rate_kbps = sum(coded["bits"] for coded in feedback) * 30 / frames / 1000  # generated clips have 30 frames a second
    return Point(rate_kbps, sum(coded["psnr_y"] * coded["frames"] for coded in feedback) / frames), info["rate_error"]


learning = make_env(LEARN_ON, guide="rate-model")
agent = SAC("MlpPolicy", learning, learning_starts=20, batch_size=32, policy_kwargs={"net_arch": [32]}, seed=0)
agent.learn(100)
learning.close()

as_it_is = lambda _: np.zeros(1, np.float32)  # noqa: E731 - what the encoder, or the rule, would do itself
contestants = {
    "encoder alone": (None, as_it_is),
    "rate-model": ("rate-model", as_it_is),
    "rate-model + SAC": ("rate-model", lambda seen: agent.predict(seen, deterministic=True)[0]),
}
curves = {}
for name, (guide, choose) in contestants.items():
    env = make_env(JUDGE_ON, guide)
    curves[name], errors = zip(*(play(env, kbps, choose) for kbps in RATES_KBPS), strict=True)
    env.close()
    verdict = bd_rate(curves["encoder alone"], curves[name])
    print(
        f"{name:<17} rate off by {100 * np.mean(np.abs(errors)):4.1f} %   BD-rate {verdict.percent or 0:+.2f} %",
        *verdict.doubts,
    )
