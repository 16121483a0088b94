"""Training of superblock maps: the environment of `encode`, learners of `agents`, a run folder that resumes exactly.

    artifacts/ baseline_output.ivf  monitor.csv  best_ppo_model.safetensors  final_ppo_model.safetensors
               final_encoder_video.ivf  (interrupted_ppo_model.safetensors  interrupted_encoder_video.ivf)

With several clips the streams lie in a folder for each: artifacts/clip-1/ and so on.

With `rollout` whole episodes are tasks of `reelrl.parallel`: played by one policy here, in worker processes or on a
cluster, to the same bytes; the learner is in one place.
"""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from gymnasium.wrappers import DiscretizeAction

from reelrl.agents.learners import LearnerSettings, make_learner, policy_of
from reelrl.agents.rollouts import PolicyActor
from reelrl.agents.training import Figures, Training, vectorise
from reelrl.content.clip import Clip
from reelrl.content.write.video import write_bitstream
from reelrl.encode.codecs.backends import capabilities
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.superblock import episode
from reelrl.encode.superblock.env import DEFAULT_WEIGHTS, SuperblockQpEnv
from reelrl.encode.superblock.learned import normalisation_facts
from reelrl.encode.superblock.states import Normalisation
from reelrl.errors import ConfigError, RunError
from reelrl.parallel import executor
from reelrl.runs import policy_file
from reelrl.runs.saving import Saving
from reelrl.seeding import seed_for
from reelrl.storage.files import explain_os_error, writable_folder, write_atomic
from reelrl.storage.regular_files import open_regular, own_folder, own_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from reelrl.agents.rollouts import Trajectory
    from reelrl.parallel import Executor
    from reelrl.runs.folder import Run


@dataclass(frozen=True, kw_only=True)
class SuperblockTraining:
    """How superblock maps are learned.

    files            clips to learn on, of one size; one environment each
    total_iteration  how often each clip is played in all
    max_frames       of each clip; None takes it whole
    eval_freq        steps from one evaluation to the next; save_freq: from one checkpoint to the next
    rollout          whole episodes that one policy plays, side by side where there are workers, before it learns from
                     them; 0: as many frames as the learner asks for, in this process
    """

    files: tuple[str, ...] = ()
    total_iteration: int = 50
    max_frames: int | None = 100
    eval_freq: int = 5000
    save_freq: int = 10_000
    rollout: int = 0
    state: str = "naive"
    reward: str = "psnr_gain"
    lambda_rd: float = 0.1
    action: Literal["map", "features", "map+time", "features+time"] = "map"
    weights: str | None = None
    normalise: bool = True
    target_kbps: float | None = None
    encoder: EncoderSettings = field(default_factory=lambda: EncoderSettings(backend="aom", picture_qp=True))
    learner: LearnerSettings = field(default_factory=LearnerSettings)

    def __post_init__(self) -> None:
        for name in ("total_iteration", "eval_freq", "save_freq"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} = {getattr(self, name)}; it is 1 or more")
        if self.rollout < 0:
            raise ConfigError(f"rollout = {self.rollout}; give how many episodes, or 0")
        if self.rollout and self.learner.n_steps != -1:
            steps = self.learner.n_steps
            raise ConfigError(f"n_steps = {steps} and rollout = {self.rollout}: episodes are whole; use one of them")

    @property
    def algorithm(self) -> str:
        return self.learner.algorithm


@dataclass(frozen=True, eq=False)
class MapEpisodeTask:
    """Episode `number` of a training with this seed, played by `actor` as it stands.

    clip  the pictures of `file`, which travel where it is not seen
    """

    settings: SuperblockTraining
    file: str
    clip: Clip
    normalisation: Normalisation | None
    seed: int
    number: int
    actor: PolicyActor


class SuperblockReport(Protocol):
    """Where a training reports to; steps are counted in all, figures have `reward` and `bytes_ratio`."""

    def step(self, done: int) -> None: ...
    def episode(self, done: int, figures: Figures) -> None: ...
    def evaluation(self, done: int, figures: Figures) -> None: ...  # names begin with eval/


class MonitorCsv:
    """monitor.csv as Stable-Baselines3's tools read it: a JSON line, then reward, length and seconds of each episode.

    It is written anew from the run's episodes, so that a resumed run has each of them once.
    """

    def __init__(self, path: Path, run: Run) -> None:
        self.path = path
        start_s = datetime.fromisoformat(run.meta["created"]).timestamp()
        lines = ["#" + json.dumps({"t_start": start_s, "env_id": "reelrl/SuperblockQP-v0"}), "r,l,t"]
        lines += [_row(episode["reward"], episode["length"], episode["time_s"]) for episode in run.episodes()]
        write_atomic(path, "\n".join(lines) + "\n", error=RunError)

    def add(self, reward: float, length: int, time_s: float) -> None:
        """One episode more."""
        try:
            with os.fdopen(open_regular(self.path, os.O_WRONLY | os.O_APPEND), "a", encoding="utf-8") as file:
                file.write(_row(reward, length, time_s) + "\n")
        except OSError as error:
            raise RunError(explain_os_error(error, self.path, "append to")) from error


class SuperblockTrainer:
    """Everything that one training needs: `attach` it to a run, then `train` to the end from where the run stands."""

    monitor: MonitorCsv
    training: Training
    run: Run
    report: SuperblockReport
    work: Executor

    def __init__(self, settings: SuperblockTraining, seed: int, jobs: int = 1) -> None:
        if not settings.files:
            raise ConfigError("there is no clip to learn on; give one with --file")
        self.settings, self.seed, self.jobs = settings, seed, jobs
        self.envs = [episode.make_environment(settings, file) for file in settings.files]
        _check_alike(self.envs, settings.files)
        self.normalisation = _shared_normalisation(self.envs)
        if self.normalisation is not None:
            for env in self.envs:
                env.normalise_by(self.normalisation)
        # Evaluations fall into the middle of training episodes, so they have environments of their own.
        self.judges = [env.twin() for env in self.envs]
        self.frames = sum(env.clip.frame_count for env in self.envs)
        seen = [episode.for_learner(env, settings) for env in self.envs[: 1 if settings.rollout else None]]
        steps = self.frames // len(self.envs) * (settings.rollout or 1)
        episodes = self._played if settings.rollout else None
        self.model = make_learner(settings.learner, vectorise(seen), frames=steps, seed=seed, episodes=episodes)
        levels = seen[0].bin_centers[0] if isinstance(seen[0], DiscretizeAction) else ()
        self.levels = tuple(float(level) for level in levels)
        self.judge_seed = seed_for(seed, "evaluation")

    @property
    def total_steps(self) -> int:
        return self.settings.total_iteration * self.frames

    @property
    def steps_done(self) -> int:
        return int(self.model.num_timesteps)

    def facts(self) -> dict[str, Any]:
        """What the training depends on besides its settings."""
        backend = self.settings.encoder.backend
        pairs = zip(self.settings.files, self.envs, strict=True)
        clips = [{"file": file, "hash": env.clip.content_hash} for file, env in pairs]
        return {"encoder": f"{backend} {capabilities(backend).version}", "clips": clips, "frames": self.frames}

    def attach(self, run: Run, report: SuperblockReport, saving: Saving | None = None) -> None:
        """Go on from the run's newest checkpoint, if it has one, and write down the baselines."""
        self.run, self.report = run, report
        self.training = Training(
            self.model,
            run,
            evaluate=self._evaluate,
            on_best=lambda *_: self._save_model("best"),
            on_step=report.step,
            on_episode=self._note,
            eval_every=self.settings.eval_freq,
            save_every=self.settings.save_freq,
            saving=saving or Saving(),
            best_file=run.new_artifact(policy_file.model_name("best", self.settings.algorithm)),
        )
        self.training.resume()
        self.monitor = MonitorCsv(run.new_artifact("monitor.csv"), run)
        for index, env in enumerate(self.envs):
            path, clip = own_path(self._folder(index) / "baseline_output.ivf"), env.clip
            write_bitstream(path, env.baseline.packets, clip.width, clip.height, clip.fps)

    def train(self) -> Figures:
        """Learn to the end, evaluate, and save what was learned; raises `Interrupted` after Ctrl+C or SIGTERM."""
        with executor(self.jobs, restarts=2) as self.work:
            self.training.learn(self.total_steps)
        figures = self.training.assess()
        self._save_model("final")
        self._save_streams("final", self.judges)
        return figures

    def save_interrupted(self) -> list[str]:
        """Save the model as it is and the last complete streams; returns what could not be saved, and why."""
        self._save_model("interrupted")
        return self._save_streams("interrupted", self.judges if self.settings.rollout else self.envs)

    def close(self) -> None:
        for env in (*self.envs, *self.judges):
            env.close()
        episode.forget_environments()

    def _played(self, actor: PolicyActor, first: int) -> Iterator[Trajectory]:
        """The next episodes, each of the next clip, played with the policy as it is."""
        for env in self.envs:
            episode.share(self.settings, env)
        last = min(first + self.settings.rollout, self.settings.total_iteration * len(self.envs))
        clips = list(zip(self.settings.files, self.envs, strict=True))
        tasks = [
            MapEpisodeTask(self.settings, file, env.clip, self.normalisation, self.seed, number, actor)
            for number in range(first, last)
            for file, env in [clips[number % len(clips)]]
        ]
        yield from self.work.map(episode.play, tasks, name=lambda task: f"episode {task.number}")

    def _note(self, step: int, info: dict[str, Any]) -> None:
        (reward, length, time_s), record = (info["episode"][key] for key in "rlt"), info["record"]
        figures = _against_baseline(reward, record["totals"])
        self.run.log_episode({"step": step, "reward": reward, "length": length, "time_s": time_s, "record": record})
        self.monitor.add(reward, length, time_s)
        self.report.episode(step, figures)

    def _evaluate(self) -> Figures:
        """The greedy policy's figures, mean over clips."""
        policy = policy_of(self.model, self.levels)
        played = [_play(env, policy.act, self.judge_seed) for env in self.judges]
        figures = {f"eval/{name}": float(np.mean([each[name] for each in played])) for name in played[0]}
        self.report.evaluation(self.steps_done, figures)
        return figures

    def _save_model(self, kind: str) -> None:
        chosen = self.settings
        facts = {name: getattr(chosen, name) for name in ("state", "action", "reward", "lambda_rd")}
        # What the environment takes where nothing is given: the policy must not depend on that default.
        facts["weights"] = chosen.weights or (DEFAULT_WEIGHTS if chosen.reward == "weighted" else None)
        facts |= normalisation_facts(self.normalisation)
        trained = {"algorithm": chosen.algorithm, "steps": self.steps_done, "clips": list(chosen.files)}
        policy = policy_of(self.model, self.levels, **facts, **trained)
        policy.save(self.run.new_artifact(policy_file.model_name(kind, chosen.algorithm)))

    def _save_streams(self, kind: str, envs: list[SuperblockQpEnv]) -> list[str]:
        with warnings.catch_warnings(record=True) as problems:
            warnings.simplefilter("always")
            for index, env in enumerate(envs):
                path = own_path(self._folder(index) / f"{kind}_encoder_video.ivf")
                env.save_bitstream_to_file(path, interrupt=kind == "interrupted")
        return [str(problem.message) for problem in problems]

    def _folder(self, index: int) -> Path:
        """Where the streams of a clip go."""
        folder = self.run.artifacts if len(self.envs) == 1 else self.run.artifacts / f"clip-{index + 1}"
        return writable_folder(own_folder(folder))


def _play(env: SuperblockQpEnv, act: Callable[[Any], Any], seed: int) -> Figures:
    """One episode; its figures beside the baseline's."""
    observation, _ = env.reset(seed=seed)
    ended = False
    while not ended:
        observation, _, ended, _, _ = env.step(act(observation))
    totals = env.episode_record()["totals"]
    return _against_baseline(totals["reward"], totals) | {"psnr_y": totals["psnr_y"], "bytes": totals["bytes"]}


def _against_baseline(reward: float, totals: dict[str, Any]) -> Figures:
    return {"reward": reward, "bytes_ratio": totals["bytes"] / totals["baseline_bytes"]}


def _shared_normalisation(envs: list[SuperblockQpEnv]) -> Normalisation | None:
    """One for all clips, as if they were one; None where observations stay as they are."""
    known = [env.normalisation for env in envs if env.normalisation is not None]
    if len(known) < 2:
        return known[0] if known else None
    means = np.stack([each.mean for each in known]).astype(np.float64)
    squares = np.stack([each.deviation for each in known]).astype(np.float64) ** 2 + means**2
    mean = means.mean(0)
    return Normalisation(mean.astype(np.float32), np.sqrt(squares.mean(0) - mean**2).astype(np.float32))


def _check_alike(envs: list[SuperblockQpEnv], files: tuple[str, ...]) -> None:
    for env, file in zip(envs[1:], files[1:], strict=True):
        ours, first = (env.observation_space, env.action_space), (envs[0].observation_space, envs[0].action_space)
        if ours != first:
            raise ConfigError(
                f"{file} is {env.clip.width} x {env.clip.height} and {files[0]} is {envs[0].clip.width} x "
                f"{envs[0].clip.height}; one policy needs clips with as many superblocks, or features that do not count"
            )


def _row(reward: float, length: int, time_s: float) -> str:
    return f"{round(reward, 6)},{length},{round(time_s, 6)}"
