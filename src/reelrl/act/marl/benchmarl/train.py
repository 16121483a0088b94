"""Training in a run folder: BenchMARL's experiment, with our logs, checkpoints, films and way to stop."""

from __future__ import annotations

import math
import tempfile
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from benchmarl.experiment import Experiment
from benchmarl.experiment.callback import Callback
from benchmarl.experiment.logger import Logger

from reelrl import seeding
from reelrl.act.doom.team_net import EARLIER_FILE, FILE, TeamNet, TeamSettings, not_plain
from reelrl.act.marl.benchmarl.collector import MatchCollector
from reelrl.act.marl.benchmarl.contrastive_objective import ContrastiveTerm
from reelrl.act.marl.benchmarl.frame_rows import BatchFrames, StackFrames
from reelrl.act.marl.benchmarl.imitation import Teaching
from reelrl.act.marl.benchmarl.parts import Parts
from reelrl.agents import state_tree
from reelrl.content.write.film import write_film
from reelrl.errors import ConfigError
from reelrl.runs.checkpoints import restoring
from reelrl.runs.progress import spaced
from reelrl.runs.saving import Saving

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tensordict import TensorDictBase

    from reelrl.act.marl.settings import DoomTraining
    from reelrl.runs.checkpoints import Checkpoint
    from reelrl.runs.folder import Run

STAGE = "doom"


class DoomExperiment(Experiment):  # type: ignore[misc]
    """BenchMARL's experiment; once it has a `run_folder` it writes there after every iteration."""

    def __init__(self, settings: DoomTraining, seed: int, *, encode_at_collection: bool = True, jobs: int = 1) -> None:
        parts = Parts(settings, encode_at_collection=encode_at_collection)
        self._settings = settings
        self.run_folder: Run | None = None
        self.contrastive_weight = settings.contrastive.weight
        self.collection, self.imitation, self.jobs = settings.collection, settings.imitation, jobs
        self.self_play = settings.self_play
        self.teaching = Teaching(settings.imitation) if settings.imitation.steps else None
        self.frames: BatchFrames | None = None
        self.saving = Saving()
        self.checkpoint_every = int(parts.experiment.checkpoint_interval)
        # BenchMARL's own files (pickles) go where they are forgotten; the run folder has everything.
        self._scratch = tempfile.TemporaryDirectory(prefix="reelrl-benchmarl-")
        parts.experiment.save_folder = self._scratch.name
        parts.experiment.checkpoint_interval, parts.experiment.checkpoint_at_end = 0, False
        try:
            with warnings.catch_warnings():
                _ignore_known_warnings()
                super().__init__(
                    task=parts.task,
                    algorithm_config=parts.algorithm,
                    model_config=parts.actor,
                    critic_model_config=parts.critic,
                    seed=seed,
                    config=parts.experiment,
                    callbacks=_callbacks(settings, self.teaching),
                )
        except BaseException as error:
            self._scratch.cleanup()
            if isinstance(error, ConfigError) or not isinstance(error, ValueError | TypeError):
                raise
            raise ConfigError(f"BenchMARL refuses these settings: {error}") from error
        self.on_iteration: Callable[[DoomExperiment], None] = lambda _: None

    def learn(self, saving: Saving | None = None) -> None:
        """Play and learn to the end; an interrupt ends it after the iteration under way."""
        self.saving = saving or Saving()
        try:
            with warnings.catch_warnings(), self.saving:
                _ignore_known_warnings()
                self._collection_loop()
        finally:
            self.close()

    def close(self) -> None:
        with suppress(RuntimeError):  # torchrl complains of a collector that is closed twice
            super().close()
        self._scratch.cleanup()

    def end_of_iteration(self) -> None:
        """Checkpoint when one is due, and stop if that was asked."""
        self.on_iteration(self)
        if self.run_folder:
            last = self.n_iters_performed == self.config.get_max_n_iters(self.on_policy)
            due = bool(self.checkpoint_every) and self.total_frames % self.checkpoint_every == 0
            self.saving.reached(f"step {spaced(self.total_frames)}", self._save, due=due, last=last)

    def _save(self) -> None:
        if self.run_folder:
            arrays, plain = state_tree.split(self.state_dict())
            self.run_folder.checkpoint(self.total_frames, arrays, {"experiment": plain})
            self._save_team(self.run_folder)

    def _save_team(self, run: Run) -> None:
        """The actor in a file of its own, where it is one net for all players; beside it the copy that plays side B."""
        actor = self.policy[0].module[0]
        if not_plain(self._settings.actor) or not actor.share_params or not self.on_policy:
            return
        self._save_actor(actor, self.total_frames, run.new_artifact(FILE))
        if opponent := self.collector.opponent:
            self._save_actor(opponent.draws.actor, opponent.step, run.new_artifact(EARLIER_FILE))

    def _save_actor(self, actor: Any, step: int, path: Path) -> None:
        taught = min(step, self.imitation.steps)
        settings = TeamSettings(task=self._settings.task, actor=self._settings.actor, step=step, taught_steps=taught)
        TeamNet.of(actor.state_dict(), settings).save(path)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint: parameters, optimisers, counters and chance. Matches begin anew."""
        with restoring(checkpoint.folder):
            self.load_state_dict(state_tree.join(checkpoint.tensors, checkpoint.state["experiment"]))

    def _setup_algorithm(self) -> None:
        super()._setup_algorithm()
        # Memories of old steps have the video in them, and frozen encoders leave none.
        if self.on_policy and self.task.settings.frozen_encoder is None and not self.config.collect_with_grad:
            self.frames = BatchFrames(self.task.video_key)
            self.algorithm.process_batch = self.frames.with_video(self.algorithm.process_batch)
            for buffer in self.replay_buffers.values():
                buffer.append_transform(StackFrames(self.frames))

    def _optimizer_loop(self, group: str) -> TensorDictBase:
        """PPO's step; while a teacher teaches, one of the critic and one towards what the teacher does."""
        if self.teaching is None or not self.teaching.under_way:
            return super()._optimizer_loop(group)
        batch = self.replay_buffers[group].sample().to(self.config.train_device)
        loss = self.losses[group].loss_critic(batch)[0].mean()
        loss.backward()
        optimiser = self.optimizers[group]["loss_critic"]
        self._grad_clip(optimiser)
        optimiser.step()
        optimiser.zero_grad()
        return self.teaching.step(batch.numel()).set("loss_critic", loss.detach())

    def _setup_collector(self) -> None:
        if self.config.collect_with_grad:
            super()._setup_collector()
            return
        self.policy = self.algorithm.get_policy_for_collection()
        self.group_policies = {
            group: self.policy.select_subsequence(out_keys=[(group, "action")])[0] for group in self.group_map
        }
        self.collector = MatchCollector(self, self.collection)

    def _setup_logger(self) -> None:
        self.logger = RunLogger(self)


class RunLogger(Logger):  # type: ignore[misc]
    """BenchMARL's figures, once per iteration, in metrics.jsonl and TensorBoard; episodes in episodes.jsonl."""

    def __init__(self, experiment: DoomExperiment) -> None:
        # Nothing of the base class's start: it opens BenchMARL's own writers.
        self.experiment = experiment
        self.experiment_config, self.group_map = experiment.config, experiment.group_map
        self.json_writer, self.loggers = None, [self]
        self.figures: dict[str, float] = {}

    @property
    def run(self) -> Run | None:
        return self.experiment.run_folder

    def log(self, dict_to_log: dict[str, Any], step: int | None = None) -> None:
        del step
        self.figures |= {key: float(value) for key, value in dict_to_log.items()}

    def log_collection(self, batch: TensorDictBase, **kwargs: Any) -> float:
        self.figures = {}  # an iteration begins; not every one sees the end of an episode
        if self.run:
            done = batch.get(("next", "done")).squeeze(-1)
            for group in self.group_map:
                for value in batch.get(("next", group, "episode_reward")).mean((-2, -1))[done].tolist():
                    self.run.log_episode({"step": self.experiment.total_frames, "return": value})
        return float(super().log_collection(batch, **kwargs))

    def log_video(self, name: str, video: Any, step: int) -> None:
        """The first evaluation episode, all views tiled."""
        del name, step
        if self.run:
            settings = self.experiment.task.settings
            pictures = video[0].permute(0, 2, 3, 1).numpy()
            path = self.run.new_artifact(f"evaluation-{self.experiment.total_frames:08d}.mp4")
            write_film(path, pictures, settings.ticrate / settings.skip, zoom=3)

    def commit(self) -> None:
        if self.run:
            finite = {key: value for key, value in self.figures.items() if math.isfinite(value)}
            self.run.log_metrics(self.experiment.total_frames, finite)
        self.experiment.end_of_iteration()

    def finish(self) -> None: ...


class KeepOptimisers(Callback):  # type: ignore[misc]
    """What BenchMARL's checkpoints leave out: the optimisers' memory, and where chance stands.

    experiment = Experiment(..., callbacks=[KeepOptimisers()])     # its own checkpoints hold them from then on
    """

    def on_state_dict(self, state_dict: dict[str, Any]) -> None:
        state_dict["optimisers"] = {
            group: {name: optimiser.state_dict() for name, optimiser in by_loss.items()}
            for group, by_loss in self.experiment.optimizers.items()
        }
        state_dict["chance"] = seeding.capture_globals()

    def on_load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for group, by_loss in state_dict.get("optimisers", {}).items():
            for name, state in by_loss.items():
                self.experiment.optimizers[group][name].load_state_dict(state)
        if "chance" in state_dict:
            seeding.restore_globals(state_dict["chance"])

    def __getstate__(self) -> dict[str, Any]:
        return {}  # BenchMARL pickles its callbacks, and they hold the whole experiment


def _callbacks(settings: DoomTraining, teaching: Teaching | None) -> list[Callback]:
    """Those that hold weights before the one that holds optimisers."""
    term = [ContrastiveTerm(settings.contrastive)] if settings.contrastive.weight else []
    return [*term, *([teaching] if teaching else []), KeepOptimisers()]


def _ignore_known_warnings() -> None:
    """What BenchMARL and torchrl say of themselves on versions that we tested."""
    for module in ("benchmarl", "torchrl", "tensordict", "abc"):
        warnings.filterwarnings("ignore", module=module)
