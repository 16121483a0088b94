"""The contrastive term in real trainings: what it adds, what it leaves alone, that it is saved, where it is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tensordict import TensorDict

from reelrl.act.marl import settings as doom_training
from reelrl.act.marl.benchmarl.contrastive_objective import ContrastiveTerm, negatives_too_near
from reelrl.act.marl.benchmarl.train import STAGE, DoomExperiment
from reelrl.act.marl.settings import ContrastiveTermSettings
from reelrl.agents import state_tree
from reelrl.errors import ConfigError
from reelrl.runs.folder import Run, RunFolder
from tests.act.marl.small_training import TINY_ENCODER, small_training

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reelrl.act.marl.settings import DoomTraining

pytestmark = pytest.mark.slow

torch.set_num_threads(1)
TERM = ContrastiveTermSettings(weight=0.5, gap_steps=1, proj_dim=8, hidden_dim=8)


def training(term: ContrastiveTermSettings = TERM, **changes: Any) -> DoomTraining:
    return replace(small_training(**changes), contrastive=term)


@pytest.fixture(scope="module")
def experiment() -> Iterator[DoomExperiment]:
    made = DoomExperiment(training(), seed=0)
    yield made
    made.close()


def term_of(experiment: Any) -> ContrastiveTerm:
    return next(callback for callback in experiment.callbacks if isinstance(callback, ContrastiveTerm))


def minibatch(seed: int = 0, steps: int = 6) -> TensorDict:
    """What a buffer gives: one match of two players, without the infos, which BenchMARL drops."""
    random = torch.Generator().manual_seed(seed)
    video = torch.randint(256, (1, steps, 2, 2, 3, 30, 40), dtype=torch.uint8, generator=random)
    health = torch.full((1, steps, 2, 1), 100.0)
    health[0, 0, 1] = 0  # player_1 lies dead at first
    info = TensorDict({"health": health}, [1, steps, 2])
    group = {
        "observation": video,
        "info": info,
        "action": torch.randint(8, (1, steps, 2), generator=random),
        "log_prob": torch.full((1, steps, 2), -2.0),
        "advantage": torch.randn(1, steps, 2, 1, generator=random),
        "value_target": torch.randn(1, steps, 2, 1, generator=random),
        "state_value": torch.zeros(1, steps, 2, 1),
    }
    return TensorDict({"player": TensorDict(group, [1, steps, 2])}, [1, steps])


def test_the_objective_grows_by_the_weighted_term_of_the_living(experiment: Any) -> None:
    batch, term = minibatch(), term_of(experiment)
    term.on_batch_collected(batch)
    batch = batch.reshape(-1)
    assert batch["player", "alive"].tolist() == [[True, False]] + [[True, True]] * 5
    assert batch["player", "moment"].tolist() == [[i, i] for i in range(6)]

    loss = experiment.losses["player"]
    with_term = loss(batch)
    policy = next(module for module in loss.actor_network.modules() if hasattr(module, "eyes"))
    with loss.actor_network_params.to_module(loss.actor_network):
        views, _ = policy.eyes(batch)
    alive, moments = batch["player", "alive"], batch["player", "moment"]
    plain = term.modules["player"](views[alive], moments[alive], negatives_too_near(moments[alive], 1))
    of_a_pair = plain.loss.item() / (alive.sum().item() - 1)
    assert with_term["loss_contrastive"].item() == pytest.approx(of_a_pair)
    hooks = loss._forward_hooks.copy()
    loss._forward_hooks.clear()
    without = loss(batch)
    loss._forward_hooks.update(hooks)
    assert with_term["loss_objective"].item() == pytest.approx(without["loss_objective"].item() + 0.5 * of_a_pair)
    assert torch.equal(with_term["loss_critic"], without["loss_critic"])


def test_the_term_alone_reaches_the_actors_encoder_and_not_its_head(experiment: Any) -> None:
    batch = minibatch(seed=1)
    batch["player", "advantage"].zero_()  # the policy has nothing to gain
    term_of(experiment).on_batch_collected(batch)
    loss = experiment.losses["player"]
    loss(batch.reshape(-1))["loss_objective"].backward()
    gradients = {name: value.grad for name, value in loss.actor_network_params.flatten_keys(".").items()}
    moved = {name for name, gradient in gradients.items() if gradient is not None and gradient.abs().sum() > 0}
    loss.zero_grad()
    assert moved
    assert all("encoders" in name for name in moved)


def test_near_in_time_is_neither_the_same_moment_nor_another_match() -> None:
    batch = TensorDict({"player": TensorDict({"info": {"health": torch.ones(2, 3, 1, 1)}}, [2, 3, 1])}, [2, 3])
    term = ContrastiveTerm(replace(TERM, gap_steps=2))
    term.modules["player"] = None  # type: ignore[assignment]
    term.on_batch_collected(batch)
    moments = batch["player", "moment"].flatten()
    assert len(moments.unique()) == 6
    first, second = negatives_too_near(moments, 2)[:3], negatives_too_near(moments, 2)[3:]
    assert first[:, :3].tolist() == [[i != j for j in range(3)] for i in range(3)]
    assert not first[:, 3:].any()
    assert not second[:, :3].any()


def test_a_run_tells_the_term_and_goes_on_with_its_projector(tmp_path: Path) -> None:
    settings = training()
    made = DoomExperiment(settings, seed=0)
    own = {id(weight) for weight in term_of(made).modules["player"].parameters()}
    clipped = {
        id(weight) for group in made.optimizers["player"]["loss_objective"].param_groups for weight in group["params"]
    }
    assert not own & clipped  # what is clipped with the policy takes from it
    with Run.create(tmp_path, settings, stage=STAGE, name="doom", seed=0) as run:
        made.run_folder = run
        before = {name: value.clone() for name, value in term_of(made).modules["player"].state_dict().items()}
        made.learn()
        after = term_of(made).modules["player"].state_dict()
        folder = RunFolder(run.folder)
    assert any(not torch.equal(before[name], after[name]) for name in before)
    for line in folder.metrics():
        assert math.isfinite(line["train/player/loss_contrastive"])
        assert 0 <= line["train/player/contrastive_top1"] <= 1
    assert folder.settings(doom_training.DoomTraining) == settings
    other = DoomExperiment(settings, seed=1)
    try:
        checkpoint = folder.checkpoints.latest()
        assert checkpoint is not None
        other.restore(checkpoint)
        found = term_of(other).modules["player"].state_dict()
        assert all(torch.equal(found[name], after[name]) for name in after)
        arrays, _ = state_tree.split(other.state_dict())
        assert arrays.keys() == checkpoint.tensors.keys()
    finally:
        other.close()


def test_the_terms_weights_cost_the_policy_no_chance() -> None:
    policies = []
    for term in (TERM, ContrastiveTermSettings()):
        made = DoomExperiment(training(term), seed=3)
        policies.append((made.policy.state_dict(), torch.rand(3)))
        made.close()
    (ours, draw), (theirs, other_draw) = policies
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert torch.equal(draw, other_draw)


def _alone(made: DoomTraining) -> DoomTraining:
    return replace(made, task={**made.task, "num_players": 1})


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda: training(encoder={**TINY_ENCODER, "freeze_backbone": True}), "frozen.*teach its own projector only"),
        (lambda: replace(training(), algorithm_name="vdn"), "vdn has no loss.*use mappo or ippo"),
        (lambda: _alone(training()), "num_players is 1; play with two or more"),
    ],
)
def test_where_it_makes_no_sense_it_is_refused(made: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        DoomExperiment(made(), seed=0)


def test_a_weight_that_cannot_be_right_is_told() -> None:
    for weight in (-1.0, math.nan, math.inf):
        with pytest.raises(ConfigError, match="contrastive weight"):
            ContrastiveTermSettings(weight=weight)
