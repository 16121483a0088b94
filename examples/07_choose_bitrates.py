"""Choose bitrates while streaming: train a controller, write a rule, and compare both with BOLA, MPC and the optimum.

In half a minute of training, on generated links, it passes BOLA and comes near RobustMPC; the shipped `ppo` was trained
far longer. It is judged on links that it has not seen.

python examples/07_choose_bitrates.py      needs [train]; about three quarters of a minute
"""

import tempfile

import numpy as np
import torch

from reelrl.report.intervals import mean_interval, paired_interval
from reelrl.runs.folder import Run
from reelrl.stream import load_bitrate_controller, read_ladder
from reelrl.stream.data.generated_traces import mobile_trace
from reelrl.stream.playback import play
from reelrl.stream.train import AbrTrainer, AbrTraining

STEPS = 700_000  # 256 players at once, in compiled code


def train():
    """A run as `reel train abr` makes it, and the controller in it that was best on links kept apart for that."""
    torch.set_num_threads(1)  # a net this small is slower on several
    settings = AbrTraining(steps=STEPS, players=256, links=300, outage_share=0.0, ladder="nominal", device="cpu")
    with tempfile.TemporaryDirectory() as folder, Run.create(folder, settings, stage="abr", name="ppo", seed=0) as run:
        AbrTrainer(settings, seed=0).train(run, lambda step, scores: print(f"step {step:>7}   {scores['score']:.3f}"))
        return load_bitrate_controller(str(run.folder))


class Cautious:
    """The highest rung that half of the last throughput pays for."""

    privileged = False

    def reset(self, seed, episode):  # noqa: ARG002 - a rule without chance
        self.rates_kbps = episode.video.bitrates_kbps

    def act(self, observation):
        throughput_kbps = observation[2, -1] * 8000  # row 2 is in megabytes per second
        return max(int((self.rates_kbps <= throughput_kbps / 2).sum()) - 1, 0)


ladder = read_ladder("nominal")
links = [mobile_trace(np.random.default_rng(seed), name=f"link-{seed}") for seed in range(30)]
controllers = {"learned": train(), "cautious": Cautious()}
controllers |= {name: load_bitrate_controller(name) for name in ("bola", "robustmpc", "oracle")}
qoe = {name: np.array([play(who, link, ladder).qoe for link in links]) for name, who in controllers.items()}
for name, values in qoe.items():
    print(f"{name:<10} QoE {mean_interval(values)}   against bola {paired_interval(values, qoe['bola'])}")
