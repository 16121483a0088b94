"""A frozen, pretrained encoder in MAPPO with 45 epochs: encoded once per frame, against encoded inside the loop.

    python benchmarks/act_encoder_cache.py

Both are whole iterations (collect in a real match, advantages, 45 epochs of actor and critic) of the same training with
EfficientNet-Lite0; only where the encoder runs differs. CPU time of the learner on one thread; rounds
are interleaved and the best of each counts.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import torch

from reelrl.act.marl import settings as doom_training
from reelrl.act.marl.benchmarl.train import DoomExperiment

STEPS, EPOCHS, ROUNDS, LEAST = 8, 45, 2, 10.0
ENCODER = {"model_type": "effnet-lite0", "freeze_backbone": True, "image_size": 64}


def training() -> doom_training.DoomTraining:
    usual = doom_training.load()
    experiment: dict[str, Any] = {
        "max_n_frames": STEPS,
        "on_policy_collected_frames_per_batch": STEPS,
        "on_policy_minibatch_size": STEPS,
        "on_policy_n_minibatch_iters": EPOCHS,
        "on_policy_n_envs_per_worker": 1,
        "evaluation": False,
        "checkpoint_interval": 0,
    }
    return replace(
        usual,
        actor={**usual.actor, "video_encoder_cfg": ENCODER},
        critic={**usual.critic, "video_encoder_cfg": ENCODER},
        experiment={**usual.experiment, **experiment},
    )


def iteration_s(encode_at_collection: bool) -> float:
    """CPU seconds of the learner for one iteration; those of players and engines are not its own."""
    experiment = DoomExperiment(training(), seed=0, encode_at_collection=encode_at_collection)
    start_s = time.process_time()
    experiment.learn()
    return time.process_time() - start_s


def main() -> None:
    torch.set_num_threads(1)
    rounds = [(iteration_s(True), iteration_s(False)) for _ in range(ROUNDS)]
    once, inside = (min(times) for times in zip(*rounds, strict=True))
    print(f"{'encoder runs':<24}{'CPU s an iteration':>20}")
    print(f"{'inside the loop':<24}{inside:>20.2f}")
    print(f"{'once per frame':<24}{once:>20.2f}")
    print(f"{inside / once:.1f} times faster with {EPOCHS} epochs (wanted: {LEAST:.0f})")
    assert inside >= LEAST * once


if __name__ == "__main__":
    main()
