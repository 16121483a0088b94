"""Real trainings: a few steps of MAPPO in real matches."""

from __future__ import annotations

import math
import os
import signal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from reelrl.act.doom.saved_teams import TrainedTeam, open_team
from reelrl.act.doom.teams import BlindTeam, RandomTeam, play
from reelrl.act.marl import settings as doom_training
from reelrl.act.marl.benchmarl.frozen_encoder import EMBEDDING
from reelrl.act.marl.benchmarl.models import AgentVideoReader
from reelrl.act.marl.benchmarl.parts import make_algorithm
from reelrl.act.marl.benchmarl.train import STAGE, DoomExperiment
from reelrl.act.marl.evaluate import BASELINES, play_all
from reelrl.agents import state_tree
from reelrl.errors import ConfigError
from reelrl.runs.folder import Run, RunFolder
from reelrl.runs.interrupts import Interrupted
from tests.act.marl.small_training import small_training

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

torch.set_num_threads(1)


def train(training: Any, root: Path) -> tuple[DoomExperiment, Path]:
    experiment = DoomExperiment(training, seed=0)
    with Run.create(root, training, stage=STAGE, name="doom", seed=0) as run:
        experiment.run_folder = run
        experiment.learn()
        return experiment, run.folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[DoomExperiment, Path]:
    training = small_training(evaluation=True, evaluation_episodes=1)
    return train(training, tmp_path_factory.mktemp("runs"))


def test_a_run_has_figures_episodes_a_film_and_checkpoints(trained: tuple[DoomExperiment, Path]) -> None:
    run = RunFolder(trained[1])
    metrics = list(run.metrics())
    assert [line["step"] for line in metrics] == [12, 24]
    assert all(math.isfinite(line["train/player/loss_objective"]) for line in metrics)
    assert "eval/reward/episode_reward_mean" in metrics[0]
    assert len(list(run.episodes())) == 3  # 24 steps, 8 an episode
    assert [path.name for path in run.checkpoints.all()] == ["00001-step-12", "00002-step-24"]
    films = {"evaluation-00000012.mp4", "evaluation-00000024.mp4"}
    assert {path.name for path in run.artifacts.iterdir()} == {*films, "team.safetensors"}


def test_a_film_shows_all_views(trained: tuple[DoomExperiment, Path]) -> None:
    import av

    with av.open(str(trained[1] / "artifacts" / "evaluation-00000024.mp4")) as film:
        pictures = [frame.to_ndarray(format="rgb24") for frame in film.decode(video=0)]
    assert len(pictures) == 7
    assert pictures[0].shape == (90, 240, 3)  # two views of 30 x 40, side by side, three times as large
    assert pictures[0].std() > 10


def test_a_restored_training_has_the_same_parameters_optimisers_counters_and_chance(
    trained: tuple[DoomExperiment, Path],
) -> None:
    run = RunFolder(trained[1])
    checkpoint = run.checkpoints.latest()
    assert checkpoint is not None
    other = DoomExperiment(run.settings(doom_training.DoomTraining), seed=5)
    other.restore(checkpoint)
    arrays, plain = state_tree.split(other.state_dict())
    other.close()
    assert arrays.keys() == checkpoint.tensors.keys()
    differ = [name for name in arrays if not np.array_equal(arrays[name], checkpoint.tensors[name])]
    assert differ in ([], ["collector.traj_pool.traj_id"])  # the number of the next episode: matches begin anew
    assert any("exp_avg_sq" in name for name in arrays)
    assert other.total_frames == 24
    parts = dict(plain[1])
    saved = dict(checkpoint.state["experiment"][1])
    assert parts["chance"] == saved["chance"]
    assert parts["optimisers"] == saved["optimisers"]


def state_of(experiment: DoomExperiment) -> dict[str, Any]:
    arrays, plain = state_tree.split(experiment.state_dict())
    return {"arrays": {name: array.tobytes() for name, array in arrays.items()}, "plain": plain}


@pytest.mark.parametrize("asked_by", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_an_interrupted_training_is_saved_as_it_stands_and_goes_on_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked_by: signal.Signals
) -> None:
    """Parameters, optimisers, counters and chance: saving leaves them alone, and a resumed training has them."""
    settings = small_training(checkpoint_interval=0, max_n_frames=36)
    save, seen = DoomExperiment._save, []

    def watched(self: DoomExperiment) -> None:
        seen.append(state_of(self))
        save(self)
        seen.append(state_of(self))

    monkeypatch.setattr(DoomExperiment, "_save", watched)
    first = DoomExperiment(settings, seed=0)
    first.on_iteration = lambda _: os.kill(os.getpid(), asked_by)
    with Run.create(tmp_path, settings, stage=STAGE, name="doom", seed=0) as run:
        first.run_folder = run
        with pytest.raises(Interrupted, match="step 12"):
            first.learn()
    before, after = seen
    assert after == before
    with Run.open(run.folder) as run:
        second = DoomExperiment(settings, seed=0)
        second.run_folder = run
        checkpoint = run.resume()
        assert checkpoint is not None
        second.restore(checkpoint)
        restored = state_of(second)
        second.learn()
    assert restored["plain"] == before["plain"]
    differ = [name for name in before["arrays"] if before["arrays"][name] != restored["arrays"][name]]
    assert differ in ([], ["collector.traj_pool.traj_id"])  # the number of the next episode: matches begin anew
    assert [line["step"] for line in RunFolder(run.folder).metrics()] == [12, 24, 36]


def test_a_frozen_encoder_trains_on_embeddings_without_video(tmp_path: Path) -> None:
    encoder = {"model_type": "cnn", "channels": [4, 4], "embed_dim": 8, "freeze_backbone": True}
    experiment, folder = train(small_training(encoder=encoder, max_n_frames=12), tmp_path)
    batch = experiment.replay_buffers["player"].sample()
    assert batch["player", EMBEDDING].shape[-2:] == (1, 8)
    assert ("player", "observation") not in batch.keys(True)
    checkpoint = RunFolder(folder).checkpoints.latest()
    assert checkpoint is not None
    assert not any("encoder" in name for name in checkpoint.tensors)
    TrainedTeam(RunFolder(folder))  # and its players can be had back


def test_a_team_in_its_own_file_scores_actions_as_the_actor_does(trained: tuple[DoomExperiment, Path]) -> None:
    experiment, folder = trained
    saved = open_team(folder)
    views = torch.randint(0, 256, experiment.observation_spec["player", "observation"].shape, dtype=torch.uint8)
    with torch.no_grad():
        assert torch.equal(saved.net(views), experiment.policy[0].module[0].scores({("player", "observation"): views}))


def test_teams_play_the_same_match(trained: tuple[DoomExperiment, Path]) -> None:
    run = RunFolder(trained[1])
    env = open_team(run.folder).make_env()
    try:
        team = open_team(run.folder).team()
        episodes = [play(env, each, seed=3) for each in (team, team, RandomTeam(), BlindTeam("sweep"))]
    finally:
        env.close()
    assert episodes[0] == episodes[1]  # with two players the engine repeats itself, and so does the team
    assert [episode.steps for episode in episodes] == [8] * 4


@pytest.mark.long
def test_matches_are_the_same_in_one_process_and_in_two(trained: tuple[DoomExperiment, Path]) -> None:
    run = RunFolder(trained[1])
    one, two = (play_all(str(run.folder), [*BASELINES, str(run.folder)], 2, seed=5, jobs=jobs) for jobs in (1, 2))
    assert one == two
    assert [[match.steps for match in played] for played in one.values()] == [[8, 8]] * 3
    for matches in zip(*one.values(), strict=True):
        assert len({match.seed for match in matches}) == 1


@pytest.mark.parametrize(
    "name", ["mappo", "masac", "vdn", *(pytest.param(name, marks=pytest.mark.long) for name in ("ippo", "isac", "iql"))]
)
def test_algorithms_by_name_take_our_models(name: str) -> None:
    from dataclasses import replace

    small, usual = small_training(), doom_training.load(algorithm_name=name)
    critic = small.critic if usual.critic["name"] == "video_central_critic" else small.actor
    training = replace(small, algorithm_name=name, algorithm=usual.algorithm, critic=critic)
    changes = {"off_policy_collected_frames_per_batch": 12, "off_policy_n_envs_per_worker": 1}
    made = DoomExperiment(replace(training, experiment={**training.experiment, **changes}), seed=0)
    made.close()
    assert any(isinstance(module, AgentVideoReader) for module in made.policy.modules())


def test_an_unknown_algorithm_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="unknown algorithm 'mapo'; did you mean 'mappo'"):
        doom_training.load(algorithm_name="mapo")


def test_qmix_which_needs_a_state_is_refused() -> None:
    with pytest.raises(ConfigError, match="use vdn or mappo"):
        make_algorithm("qmix", {})


def test_continuous_algorithms_are_refused() -> None:
    from dataclasses import replace

    training = small_training()
    usual = doom_training.load(algorithm_name="maddpg")
    with pytest.raises(ConfigError, match="not compatible"):
        DoomExperiment(replace(training, algorithm_name="maddpg", algorithm=usual.algorithm), seed=0)
