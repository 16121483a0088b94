"""Pensieve-PPO's network: read without running code, and equal to the same layers in torch."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from reelrl.errors import CheckpointError, ConfigError
from reelrl.stream.controllers.pensieve_ppo import PensievePpo
from reelrl.stream.controllers.protocol import EpisodeInfo
from reelrl.stream.data.ladders import nominal_ladder
from reelrl.stream.playback import load_bitrate_controller

FEATURES = 128


def actor_weights(seed: int = 0, rungs: int = 6) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = {
        "fc1_actor": (FEATURES, 1),
        "fc2_actor": (FEATURES, 1),
        "conv1_actor": (FEATURES, 8),
        "conv2_actor": (FEATURES, 8),
        "conv3_actor": (FEATURES, rungs),
        "fc3_actor": (FEATURES, 1),
        "fc4_actor": (FEATURES, 6 * FEATURES),
        "pi_head": (rungs, FEATURES),
    }
    weights = {f"{name}.weight": torch.randn(shape, generator=generator) * 0.2 for name, shape in shapes.items()}
    return weights | {f"{name}.bias": torch.randn(shape[0], generator=generator) for name, shape in shapes.items()}


def write_actor(path: Path, seed: int = 0, rungs: int = 6) -> Path:
    torch.save([actor_weights(seed, rungs), {"critic": torch.zeros(1)}], path)
    return path


def test_scores_are_those_of_the_layers_in_torch(tmp_path: Path) -> None:
    controller = PensievePpo(write_actor(tmp_path / "nn_model.pth", seed=3))
    weights = actor_weights(3)

    def layer(name: str, values: Tensor) -> Tensor:
        return nn.functional.linear(values, weights[f"{name}.weight"], weights[f"{name}.bias"])

    rng = np.random.default_rng(0)
    for _ in range(20):
        state = rng.uniform(0, 2, (6, 8)).astype(np.float32)
        seen = torch.from_numpy(state)
        rows = [seen[0, -1:], seen[1, -1:], seen[2], seen[3], seen[4, :6], seen[5, -1:]]
        names = ("fc1_actor", "fc2_actor", "conv1_actor", "conv2_actor", "conv3_actor", "fc3_actor")
        merged = torch.cat([layer(name, row).relu() for name, row in zip(names, rows, strict=True)])
        wanted = layer("pi_head", layer("fc4_actor", merged).relu())
        np.testing.assert_allclose(controller.scores(state), wanted.numpy(), rtol=1e-4, atol=1e-4)


def test_a_file_is_named_like_any_other_policy(tmp_path: Path) -> None:
    assert isinstance(load_bitrate_controller(str(write_actor(tmp_path / "nn_model.pth"))), PensievePpo)
    with pytest.raises(ConfigError, match="pensieve-ppo has no weights of its own; give the file"):
        load_bitrate_controller("pensieve-ppo")


class Trap:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (Path("trap"),)  # type: ignore[return-value]


def test_files_that_are_something_else_are_refused_and_run_no_code(tmp_path: Path, monkeypatch: object) -> None:
    trap, text, wrong = tmp_path / "trap.pth", tmp_path / "text.pth", tmp_path / "wrong.pth"
    trap.write_bytes(pickle.dumps([Trap()]))
    text.write_text("weights")
    torch.save([actor_weights() | {"pi_head.weight": torch.zeros(6, 5)}, {}], wrong)
    for path in (trap, text, wrong, tmp_path / "absent.pth"):
        with pytest.raises(CheckpointError, match=r"holds no actor of Pensieve-PPO .*; give a nn_model_ep"):
            PensievePpo(path)
    assert not Path("trap").exists()


def test_another_number_of_rungs_is_refused(tmp_path: Path) -> None:
    controller = PensievePpo(write_actor(tmp_path / "nn_model.pth"))
    with pytest.raises(ConfigError, match="chooses among 6 rungs and the ladder has 3; give a ladder of 6"):
        controller.reset(0, EpisodeInfo(nominal_ladder((300, 900, 2000)).video()))
