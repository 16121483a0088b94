"""Trainings that are over in seconds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reelrl.act.marl import settings as doom_training

if TYPE_CHECKING:
    from reelrl.act.marl.settings import DoomTraining

TINY_ENCODER = {"model_type": "cnn", "channels": [4, 4], "embed_dim": 8}


def small_training(
    task: dict[str, Any] | None = None, encoder: dict[str, Any] | None = None, **experiment: Any
) -> DoomTraining:
    """The shipped files, one match, few steps, a small encoder; keywords change the experiment."""
    usual = doom_training.load()
    models = [
        {**part, "video_encoder_cfg": encoder or TINY_ENCODER, "head_hidden_sizes": [8]}
        for part in (usual.actor, usual.critic)
    ]
    few: dict[str, Any] = {
        "max_n_frames": 24,
        "on_policy_collected_frames_per_batch": 12,
        "on_policy_n_envs_per_worker": 1,
        "on_policy_minibatch_size": 6,
        "on_policy_n_minibatch_iters": 2,
        "evaluation": False,
        "evaluation_interval": 12,
        "checkpoint_interval": 12,
    }
    return replace(
        usual,
        task={**usual.task, "max_steps": 8, "observation_size": [30, 40], **(task or {})},
        actor=models[0],
        critic=models[1],
        experiment={**usual.experiment, **few, **experiment},
    )
