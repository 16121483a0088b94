"""All matches as one batch: the same steps as BenchMARL's own collector gives, whoever waits for whom."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from reelrl.act.marl.benchmarl.frame_rows import NEXT_ROWS, ROWS
from reelrl.act.marl.benchmarl.rollouts import GROUP
from reelrl.act.marl.benchmarl.train import DoomExperiment
from reelrl.act.marl.settings import STRICT, ImitationSettings
from reelrl.errors import GameError
from tests.act.makers import Footprint, engine_of, footprint
from tests.act.marl.small_training import small_training
from tests.waiting import HANG_S

if TYPE_CHECKING:
    from reelrl.act.marl.settings import DoomTraining

pytestmark = pytest.mark.slow

torch.set_num_threads(1)

VIDEO = (GROUP, "observation")
SAME = [(GROUP, "action"), (GROUP, "log_prob"), (GROUP, "info", "health"), ("next", "done")]
SAME += [("next", GROUP, name) for name in ("reward", "episode_reward", "terminated")]


class PlainExperiment(DoomExperiment):
    """As BenchMARL does it: an environment of torchrl per match, one after the other."""

    def _setup_algorithm(self) -> None:
        super(DoomExperiment, self)._setup_algorithm()

    def _setup_collector(self) -> None:
        super(DoomExperiment, self)._setup_collector()


def training(max_steps: int = 100, **changes: Any) -> DoomTraining:
    few = {"on_policy_n_envs_per_worker": 2, "on_policy_collected_frames_per_batch": 16, "max_n_frames": 32}
    return small_training({"max_steps": max_steps}, **few | changes)


class Batches:
    """A training whose batches, and whose actor at the time, are kept."""

    def __init__(self, kind: type[DoomExperiment], settings: DoomTraining) -> None:
        self.experiment = kind(settings, seed=3)
        self.batches: list[Any] = []
        self.videos: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.policies: list[dict[str, torch.Tensor]] = []
        log = self.experiment.logger.log_collection

        def keep(batch: Any, **kwargs: Any) -> float:
            frames = self.experiment.frames
            if frames is None:
                self.videos.append((batch.get(VIDEO).clone(), batch.get(("next", *VIDEO)).clone()))
            else:
                self.videos.append((frames.stacked(batch.get(ROWS)), frames.stacked(batch.get(NEXT_ROWS))))
            self.batches.append(batch.clone())
            self.policies.append({name: value.clone() for name, value in self.experiment.policy.state_dict().items()})
            return float(log(batch, **kwargs))

        self.experiment.logger.log_collection = keep  # type: ignore[method-assign]

    def log_probs(self, policy: int, batch: int) -> torch.Tensor:
        """Of the actions of a batch, by the actor as it was when another batch came."""
        self.experiment.policy.load_state_dict(self.policies[policy])
        actor = self.experiment.policy[0].module[0]
        with torch.no_grad():
            scores = actor.scores({VIDEO: self.videos[batch][0]}).log_softmax(-1)
        chosen: torch.Tensor = scores.gather(-1, self.batches[batch][GROUP, "action"][..., None])[..., 0]
        return chosen


@pytest.fixture(scope="module")
def strict() -> Batches:
    made = Batches(DoomExperiment, replace(training(), collection=STRICT))
    made.experiment.learn()
    return made


def test_a_strict_batch_is_to_the_byte_what_an_environment_per_match_gives(strict: Batches) -> None:
    """Video, actions, rewards and ends in the first episodes, which are the ones that repeat; so do the parameters."""
    plain = Batches(PlainExperiment, training())
    plain.experiment.learn()
    for ours, theirs in zip(strict.batches, plain.batches, strict=True):
        for key in SAME:
            assert torch.equal(ours.get(key), theirs.get(key)), key
    for ours, theirs in zip(strict.videos, plain.videos, strict=True):
        assert all(map(torch.equal, ours, theirs))
    for name, value in plain.experiment.losses[GROUP].state_dict().items():
        assert torch.equal(strict.experiment.losses[GROUP].state_dict()[name], value), name


def test_beside_the_learner_a_batch_is_one_update_late_and_no_more() -> None:
    made = Batches(DoomExperiment, training(max_n_frames=48))
    made.experiment.learn()
    for batch, policy in ((0, 0), (1, 0), (2, 1)):
        assert torch.allclose(made.batches[batch][GROUP, "log_prob"], made.log_probs(policy, batch), atol=1e-5)
    assert not torch.allclose(made.batches[2][GROUP, "log_prob"], made.log_probs(0, 2), atol=1e-5)


def test_frames_are_stacked_as_an_environment_would_across_ends_of_episodes_and_batches() -> None:
    settings = training(max_steps=3, on_policy_collected_frames_per_batch=20)
    made = Batches(DoomExperiment, replace(settings, task={**settings.task, "frame_stack": 3}))
    made.experiment.learn()
    seen, after = (torch.cat(parts, 1) for parts in zip(*made.videos, strict=True))
    done = torch.cat([batch["next", "done"] for batch in made.batches], 1)[..., 0]
    assert done[0].nonzero().flatten().tolist() == list(range(2, 20, 3))
    assert torch.equal(after[:, :, :, :-1], seen[:, :, :, 1:]), "what is newest before a step is older after it"
    for match in range(2):
        for step in range(19):
            if done[match, step]:
                begun = seen[match, step + 1]
                assert (begun == begun[:, :1]).all(), "an episode's first frame is repeated"
                assert not torch.equal(after[match, step], begun)
            else:
                assert torch.equal(after[match, step], seen[match, step + 1])


@pytest.mark.parametrize("beside", [True, pytest.param(False, marks=pytest.mark.long)])
def test_an_engine_that_is_killed_inside_a_batch_ends_the_run_with_the_name_of_its_match(beside: bool) -> None:
    settings = training(max_n_frames=16 * 10**4, on_policy_n_envs_per_worker=3, on_policy_collected_frames_per_batch=48)
    settings = settings if beside else replace(settings, collection=STRICT)
    experiment = DoomExperiment(settings, seed=0)
    held: list[Footprint] = []

    def kill_one(experiment: DoomExperiment) -> None:
        if not held:
            rollouts: Any = experiment.collector._rollouts
            matches = rollouts._batch.matches
            held.extend(footprint(match.pids) for match in matches)
            os.kill(engine_of(matches[1].pids[0]), signal.SIGKILL)

    experiment.on_iteration = kill_one
    with pytest.raises(GameError, match="match 1: player_0"):
        experiment.learn()
    assert [each.left_after(HANG_S) for each in held] == [[], [], []]


@pytest.mark.long
def test_a_teacher_is_there_for_the_steps_that_were_asked_and_then_gone() -> None:
    settings = training(max_n_frames=48)
    task = {**settings.task, "config_path": "bystanders"}
    made = Batches(DoomExperiment, replace(settings, task=task, imitation=ImitationSettings(steps=20)))
    figures = []
    made.experiment.on_iteration = lambda experiment: figures.append(dict(experiment.logger.figures))
    made.experiment.learn()
    assert [(batch[GROUP, "taught"] >= 0).all().item() for batch in made.batches] == [True, True, False]
    assert ["train/player/loss_imitation" in each for each in figures] == [True, True, False]
    assert ["train/player/loss_objective" in each for each in figures] == [False, False, True], "PPO waits meanwhile"


def test_a_teacher_plays_some_matches_itself_at_first_and_all_are_learned_from() -> None:
    settings = training(max_n_frames=64)
    task = {**settings.task, "config_path": "bystanders"}
    imitation = ImitationSettings(steps=64, shown=0.5, memory_steps=40)
    made = Batches(DoomExperiment, replace(settings, task=task, imitation=imitation))
    kept: list[int] = []
    teaching = made.experiment.teaching
    assert teaching is not None
    made.experiment.on_iteration = lambda _: kept.append(len(teaching.lessons))
    made.experiment.learn()
    same = [(batch[GROUP, "taught"] == batch[GROUP, "action"]).flatten(1).all(1).tolist() for batch in made.batches]
    assert same == [[True, True], [True, False], [False, False], [False, False]]
    assert kept == [1, 2, 2, 2], "of 16 steps each, 40 at most"
