"""Players side by side: each learns what it would learn alone, and can go on alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from reelrl.act.atari.players import PlayerMoments, StreamingPlayers, one_of
from reelrl.act.atari.settings import PlayerNetSettings, PlayerSettings, TraceOptimiserSettings
from reelrl.act.atari.traces import TraceOptimiser
from reelrl.content.games.kinds import GameFacts, Moment
from reelrl.errors import CheckpointError
from reelrl.see.optim import AdaptiveObGD, ObGD
from reelrl.see.settings import AutoEncoderSettings

NET = PlayerNetSettings(pixel_layers=((3, 4, 2), (4, 3, 2)), embedding_layers=((2, 5, 4),), hidden=(8, 6), sparsity=0.5)
TINY = PlayerSettings(
    size=16, stack=2, net=NET, entropy=0.1, autoencoder=AutoEncoderSettings(widths=((2, 2), (2, 2), (2, 2)))
)
FACTS, SEEDS = GameFacts(4, 0), (0, 5, 2)
SIZES = ((21, 16), (21, 16), (25, 16))


def play(players: StreamingPlayers, which: list[int], steps: int, first: int = 0) -> list[list[int]]:
    """The actions of these of the three players in their streams, from a step on."""
    actions = []
    for step in range(first, first + steps):
        moments, began, chance = [], [], []
        for number in which:
            rng = np.random.default_rng([number, step])
            place = step % (5 + number)
            picture = rng.integers(0, 256, (*SIZES[number], 3), dtype=np.uint8)
            moments.append(
                Moment(picture, np.zeros(0, np.float32), float(rng.normal()) * (place > 0), place == 4, False)
            )
            began.append(place == 0)
            chance.append(rng.random(2))
        actions.append(players.step(PlayerMoments.of(moments, began), np.array(chance)).actions)
    return actions


def assert_same(one: dict[str, Any], two: dict[str, Any]) -> None:
    assert one.keys() == two.keys()
    for name, value in one.items():
        torch.testing.assert_close(value, two[name], atol=1e-4, rtol=1e-3, msg=f"{name} differs")


@pytest.mark.parametrize(
    ("algorithm", "observation", "optimiser"),
    [
        ("q", "pixels", "obgd"),
        ("q", "pixels", "intentional"),
        ("actor-critic", "pixels", "adaptive-obgd"),
        pytest.param("q", "both", "trace-adam", marks=pytest.mark.slow),
    ],
)
def test_players_side_by_side_are_each_what_they_would_be_alone(
    algorithm: Any, observation: Any, optimiser: Any
) -> None:
    chosen = TraceOptimiserSettings(name=optimiser)
    settings = replace(TINY, algorithm=algorithm, observation=observation, value=chosen, policy=chosen)
    steps = 5 if observation == "both" else 12
    together = StreamingPlayers(settings, FACTS, SEEDS)
    actions = play(together, [0, 1, 2], steps)
    state = together.training_state()
    assert together.frames_seen == steps
    for number, seed in enumerate(SEEDS):
        own = replace(settings, seed=seed, autoencoder=replace(settings.autoencoder, seed=seed))
        alone = StreamingPlayers(own, FACTS)
        assert play(alone, [number], steps) == [[row[number]] for row in actions]
        assert_same(one_of(state, number), alone.training_state())
    going_on = StreamingPlayers(replace(settings, seed=SEEDS[1]), FACTS)
    going_on.load_training_state(one_of(state, 1))
    rest = play(together, [0, 1, 2], 3, steps)
    assert play(going_on, [1], 3, steps) == [[row[1]] for row in rest]


def test_a_state_of_other_players_is_refused() -> None:
    state = StreamingPlayers(TINY, FACTS, SEEDS).training_state()
    with pytest.raises(CheckpointError, match=r"does not fit this player .*resume with the settings"):
        StreamingPlayers(TINY, FACTS).load_training_state(state)


@pytest.mark.parametrize(("name", "kind"), [("obgd", ObGD), ("adaptive-obgd", AdaptiveObGD)])
def test_a_step_is_that_of_the_optimiser_of_pictures(name: Any, kind: Any) -> None:
    settings = PlayerSettings(gamma=0.9, lamda=0.7)
    rows = torch.randn(2, 7, generator=torch.Generator().manual_seed(0))
    ours = TraceOptimiser(weights := rows.clone(), TraceOptimiserSettings(name=name), settings)
    theirs = [torch.nn.Parameter(row.clone()) for row in rows]
    optimisers = [kind([each], 1.0, 0.9, 0.7, 2.0) for each in theirs]
    chance = torch.Generator().manual_seed(1)
    for step in range(6):
        gradient, error = torch.randn(2, 7, generator=chance), torch.randn(2, generator=chance)
        cut = torch.tensor([float(step == 3), 0.0])
        ours.gradient.copy_(gradient)
        ours.step(error, cut, torch.ones(2))
        for row, optimiser in enumerate(optimisers):
            theirs[row].grad = -gradient[row]  # theirs descends
            optimiser.step(error[row], cut[row])
    torch.testing.assert_close(weights, torch.stack([each.detach() for each in theirs]))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("observation", ["pixels", "both"])
def test_one_cuda_graph_does_what_the_same_steps_do_op_by_op(observation: Any) -> None:
    settings = replace(TINY, observation=observation)
    graph = StreamingPlayers(settings, FACTS, SEEDS, "cuda")
    eager = StreamingPlayers(replace(settings, step="eager"), FACTS, SEEDS, "cuda")
    assert play(graph, [0, 1, 2], 6) == play(eager, [0, 1, 2], 6)
    assert_same(graph.training_state(), eager.training_state())
