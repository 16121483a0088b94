"""policy.onnx gives what the Python nets give, for any number of players and rungs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from reelrl.stream.export.module import exportable
from reelrl.stream.export.onnx_graph import INPUTS, PLAYER, onnx_bytes
from reelrl.stream.scalefree.features import Offer, Player, features, measured, no_history
from reelrl.stream.scalefree.sizes import AHEAD, HISTORY, MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")


def loaded(name: str) -> tuple[Any, Callable[..., np.ndarray]]:
    controller = exportable(name)
    session = runtime.InferenceSession(onnx_bytes(controller))
    return controller.policy, lambda **given: session.run(None, {key: value.numpy() for key, value in given.items()})[0]


def test_the_policy_for_six_rungs() -> None:
    policy, scores = loaded("ppo")
    torch.manual_seed(0)
    observation = torch.rand(50, 6, 9)
    np.testing.assert_allclose(
        scores(observation=observation), policy.logits(observation).detach().numpy(), rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("rungs", [2, 6, 11])
def test_the_policy_for_any_ladder(rungs: int) -> None:
    policy, scores = loaded("scalefree")
    players = 30
    torch.manual_seed(rungs)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.rand(shape) + 0.2

    rates = drawn(players, rungs).cumsum(1)
    chunk_s, cap_s, stall_penalty, caution, smooth_penalty = (drawn(players) for _ in range(5))
    present = torch.ones(players, rungs, dtype=torch.bool)
    player = Player(chunk_s, cap_s, stall_penalty, caution, smooth_penalty, rates[:, -1].clone(), rates, present)
    offer = Offer(drawn(players, rungs), drawn(players, rungs), drawn(players, AHEAD), drawn(players), drawn(players))
    history = no_history(players)
    for _ in range(HISTORY):
        history = measured(history, drawn(players), drawn(players), drawn(players))
    assert history.memory.shape == (players, MEMORY)
    named = {name: getattr(player, name) for name in PLAYER} | offer._asdict() | history._asdict()
    assert set(named) == set(INPUTS)
    python = policy.scores(*features(player, offer, history), torch.ones(players, rungs)).detach().numpy()
    np.testing.assert_allclose(scores(**named), python, rtol=1e-3, atol=1e-2)
