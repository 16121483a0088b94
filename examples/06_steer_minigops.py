"""Spread a bitrate over time: a rule and a SAC agent that corrects it, against SVT-AV1's VBR, on clips not learned on.

The rule `rate-model` probes a clip, then sets the QP of each mini-GOP. With and without the agent's corrections it
meets bitrates that VBR misses and saves bits on three clips; on `talk`, where little moves, it loses. So short a
training adds nothing to the rule; docs/results/minigop.md has long ones, and VBR in two passes.

python examples/06_steer_minigops.py      needs [train]; about half a minute
"""

from dataclasses import replace

import gymnasium
import numpy as np
from stable_baselines3 import SAC

import reelrl  # noqa: F401 - registers the ids
from reelrl.content import open_clip
from reelrl.encode import EncoderSettings, encode_clip
from reelrl.report.bd_rate import Point, bd_rate

LEARN_ON = ["generated:street?size=128x96&frames=48&seed=1", "generated:cuts?size=128x96&frames=48&seed=2"]
JUDGE_ON = ("cuts", "street", "pan", "talk")
RATES_KBPS = (30, 60, 120, 240)
ENCODER = EncoderSettings(preset=10, rate_control="crf", structure="random_access", hierarchical_levels=4, keyint=161)


def by_vbr(clip, kbps):
    """Rate and quality of the encoder's own rate control."""
    coded = encode_clip(open_clip(clip), replace(ENCODER, rate_control="vbr", target_kbps=kbps))
    return Point(coded.kbps, coded.psnr_y)


def by_mini_gops(env, kbps, choose):
    """Rate and quality of one episode."""
    observation, _ = env.reset(seed=0, options={"kbps": kbps})
    feedback, ended = [], False
    while not ended:
        observation, _, ended, _, info = env.step(choose(observation))
        feedback += info["feedback"]
    psnr_y = sum(coded["psnr_y"] * coded["frames"] for coded in feedback) / sum(coded["frames"] for coded in feedback)
    return Point(kbps * (1 + info["rate_error"]), psnr_y)


learning = gymnasium.make("reelrl/MiniGopQP-v0", clips=LEARN_ON, encoder=ENCODER, guide="rate-model")
agent = SAC("MlpPolicy", learning, learning_starts=20, batch_size=32, policy_kwargs={"net_arch": [32]}, seed=0)
agent.learn(100)
learning.close()

deciders = {"rule": lambda _: np.zeros(1, np.float32), "agent": lambda seen: agent.predict(seen, deterministic=True)[0]}
for style in JUDGE_ON:
    clip = f"generated:{style}?size=192x128&frames=128&seed=3"
    env = gymnasium.make("reelrl/MiniGopQP-v0", clips=clip, encoder=ENCODER, guide="rate-model")
    curves = {"VBR": [by_vbr(clip, kbps) for kbps in RATES_KBPS]}
    curves |= {who: [by_mini_gops(env, kbps, choose) for kbps in RATES_KBPS] for who, choose in deciders.items()}
    env.close()
    for who, curve in curves.items():
        off = np.mean([abs(point.kbps / kbps - 1) for point, kbps in zip(curve, RATES_KBPS, strict=True)])
        verdict = bd_rate(curves["VBR"], curve)
        print(f"{style:<7} {who:<6} rate off by {off:5.1%}   BD-rate {verdict.percent or 0:+6.2f} %", *verdict.doubts)
