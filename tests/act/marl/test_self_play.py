"""Self-play: who plays side B, and what the learner gets of a match of two sides."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from reelrl import seeding
from reelrl.act.doom.team_net import EARLIER_FILE, FILE, TeamNet
from reelrl.act.marl import settings as doom_training
from reelrl.act.marl.benchmarl.frame_rows import ROWS
from reelrl.act.marl.benchmarl.parts import Parts
from reelrl.act.marl.benchmarl.rollouts import GROUP
from reelrl.act.marl.benchmarl.train import STAGE, DoomExperiment
from reelrl.act.marl.settings import STRICT, SelfPlaySettings
from reelrl.errors import ConfigError
from reelrl.runs.folder import Run, RunFolder
from tests.act.marl.small_training import small_training

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from reelrl.act.marl.settings import DoomTraining

pytestmark = pytest.mark.slow

torch.set_num_threads(1)

VIDEO = (GROUP, "observation")


def duel_training(renew: int = 2, **experiment: Any) -> DoomTraining:
    settings = doom_training.with_scenario(small_training({"max_steps": 100}, **experiment), "duel")
    return replace(settings, collection=STRICT, self_play=SelfPlaySettings(renew=renew))


def parameters(actor: Any) -> Tensor:
    return torch.cat([each.detach().flatten() for each in actor.parameters()])


def side_b(experiment: DoomExperiment) -> Any:
    return experiment.collector.opponent


class Recorder:
    """The draws of side B, and what it did."""

    def __init__(self, draws: Any) -> None:
        self._draws, self.actor = draws, draws.actor
        self.actions: list[int] = []

    def state(self) -> Tensor:
        state: Tensor = self._draws.state()
        return state

    def __call__(self, known: Any) -> Any:
        answer = self._draws(known)
        self.actions.append(answer["action"].item())
        return answer


def test_the_learner_gets_side_a_of_what_both_sides_did() -> None:
    settings = duel_training(max_n_frames=12)
    experiment = DoomExperiment(settings, seed=3)
    recorder = side_b(experiment).draws = Recorder(side_b(experiment).draws)
    kept: list[Any] = []
    log = experiment.logger.log_collection

    def keep(batch: Any, **kwargs: Any) -> float:
        assert experiment.frames is not None
        kept.append((batch.clone(), experiment.frames.stacked(batch.get(ROWS))))
        return float(log(batch, **kwargs))

    experiment.logger.log_collection = keep  # type: ignore[method-assign]
    experiment.learn()
    [(batch, video)] = kept
    assert batch[GROUP, "action"].shape == (1, 12, 1)
    env = experiment.task.settings.make_env()
    observations, _ = env.reset(seed=seeding.seed_for(3, "match", 1))
    for step, (ours, theirs) in enumerate(
        zip(batch[GROUP, "action"].flatten().tolist(), recorder.actions, strict=True)
    ):
        assert torch.equal(video[0, step, 0], torch.from_numpy(observations["player_0"]))
        observations, rewards, *_ = env.step({"player_0": ours, "player_1": theirs})
        assert batch["next", GROUP, "reward"][0, step].item() == rewards["player_0"]
    env.close()


def test_side_b_is_a_copy_of_the_actor_that_is_renewed_every_so_many_batches(tmp_path: Path) -> None:
    settings = duel_training(renew=2, max_n_frames=48)
    experiment = DoomExperiment(settings, seed=0)
    actors, copies, steps = [parameters(experiment.policy[0].module[0])], [], []

    def look(experiment: DoomExperiment) -> None:
        actors.append(parameters(experiment.policy[0].module[0]))
        copies.append(parameters(side_b(experiment).draws.actor))
        steps.append(side_b(experiment).step)

    experiment.on_iteration = look
    with Run.create(tmp_path, settings, stage=STAGE, name="doom", seed=0) as run:
        experiment.run_folder = run
        experiment.learn()
    assert steps == [0, 0, 24, 24]
    assert not torch.equal(actors[0], actors[2])
    for copied, actor in zip(copies, (0, 0, 2, 2), strict=True):
        assert torch.equal(copied, actors[actor])
    saved = RunFolder(run.folder)
    assert [TeamNet.load(saved.artifact(name)).settings.step for name in (FILE, EARLIER_FILE)] == [48, 24]
    checkpoint = saved.checkpoints.latest()
    assert checkpoint is not None
    other = DoomExperiment(saved.settings(doom_training.DoomTraining), seed=5)
    other.restore(checkpoint)
    opponent = side_b(other)
    assert torch.equal(parameters(opponent.draws.actor), copies[-1])
    assert torch.equal(opponent.draws.state(), side_b(experiment).draws.state())
    assert opponent.step == 24
    other.close()


@pytest.mark.long
def test_a_duel_can_be_taught_and_evaluated_while_it_is_trained(tmp_path: Path) -> None:
    settings = duel_training(max_n_frames=24, evaluation=True, evaluation_episodes=1)
    settings = replace(settings, collection=doom_training.CollectionSettings())
    settings = replace(settings, imitation=doom_training.ImitationSettings(steps=12))
    experiment = DoomExperiment(settings, seed=0)
    figures = []
    experiment.on_iteration = lambda experiment: figures.append(dict(experiment.logger.figures))
    with Run.create(tmp_path, settings, stage=STAGE, name="doom", seed=0) as run:
        experiment.run_folder = run
        experiment.learn()
    assert ["train/player/loss_imitation" in each for each in figures] == [True, False]
    assert all("eval/reward/episode_reward_mean" in each for each in figures)
    assert list((run.folder / "artifacts").glob("evaluation-*.mp4"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"collection": doom_training.CollectionSettings(spread=True)}, "leave --spread, --workers and --ray out"),
        ({"algorithm_name": "vdn"}, "vdn has no actor whose copy could play side B; use mappo or ippo"),
    ],
)
def test_who_could_not_play_against_a_copy_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Parts(replace(duel_training(), **changes))


def test_two_sides_need_a_map_that_they_can_start_in() -> None:
    settings = duel_training()
    with pytest.raises(ConfigError, match=r"map01 of gate\.wad has no deathmatch starts for two sides"):
        Parts(replace(settings, task={**settings.task, "config_path": "gate"}))


def test_renewing_never_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"self_play\.renew is 0; give 1 or more batches"):
        SelfPlaySettings(renew=0)


def test_a_training_from_before_there_were_sides_is_one_of_one_side() -> None:
    settings = small_training()
    task = {key: value for key, value in settings.task.items() if key != "sides"}
    assert Parts(replace(settings, task=task)).task.settings.sides == 1
