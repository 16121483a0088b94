"""Training of mini-GOP QPs under a bitrate: encoders that ask, constrained SAC, a run folder that resumes exactly.

    epoch ──► every video once, in an order of its own ──► `rollout` episodes: an encode each ──► learn from each
                                                             here, in worker processes, on a cluster,
                                                             or one at a time by a foreign program behind files

    artifacts/ final_sac_model.safetensors     checkpoint_epoch_5.pt, ... unless they go to a folder of their own

Which video is coded at which rate in episode n follows from the seed and n alone, so a run that was killed goes on with
what would have come next. So does how it is played: where episodes are played changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from reelrl.agents import checkpointing
from reelrl.agents.constrained_sac import MultiplierTerms
from reelrl.agents.devices import pick_device
from reelrl.agents.episodic import OneAtATime, SacSettings, acting, actor_policy, learn_from, make_sac
from reelrl.agents.rollouts import SacActor
from reelrl.content.clip import Clip
from reelrl.encode.codecs.backends import capabilities
from reelrl.encode.minigop.source.in_process import RANDOM_ACCESS
from reelrl.encode.minigop.state import NAMES
from reelrl.encode.minigop.training import episode
from reelrl.encode.minigop.training.env import base_of
from reelrl.encode.minigop.training.videos import TrainingVideo
from reelrl.errors import ConfigError
from reelrl.parallel import executor
from reelrl.runs import checkpoint_file, policy_file
from reelrl.runs.checkpoints import restoring
from reelrl.runs.interrupts import Interrupted
from reelrl.runs.saving import Saving
from reelrl.seeding import stream
from reelrl.storage.regular_files import own_path

if TYPE_CHECKING:
    from reelrl.parallel import Executor
    from reelrl.runs.checkpoints import Checkpoint
    from reelrl.runs.folder import Run

Figures = dict[str, float]
Step = tuple[float, dict[str, Any]]
Structure = Literal["random_access", "low_delay"]


# Costs are shares of the budget, about 0.01, and gains tenths of a dB: prices must be high to be felt, and move fast
# because there are only hundreds of GOPs. Rate control is the base's; actions need little noise.
LEARNER = SacSettings(
    discount=0.98,
    starts=120,
    updates=4.0,
    temperature=0.02,
    target_entropy=-0.7,
    cost_limits=(0.01, 0.01),
    multiplier=MultiplierTerms(start=10.0, proportional=50.0, integral=10.0, derivative=20.0, ceiling=300.0),
)


@dataclass(frozen=True, kw_only=True)
class MiniGopTraining:
    """How mini-GOP control is learned.

    clips           names, files or recipes; `videos` are encoders' own arguments, "--input|in.yuv|--bitrate|500"
    encoder         a foreign program, met in `rl_dir`; None codes in this process
    epochs          to reach in all, also after a load; an epoch is one pass over all videos
    rollout         episodes of an epoch that one policy plays, side by side where there are workers, before it learns
                    from them
    kbps            range that rates are drawn from; None takes what crf at a QP drawn from `qps` would spend
    base            who decides what an action of 0 stands for, by structure if empty; "none" is a delta of 0
    max_delta       QP steps from there that an action of 1 stands for
    reward_scale    what a dB counts for the learner; figures that people see are in dB
    """

    clips: tuple[str, ...] = ()
    videos: tuple[str, ...] = ()
    encoder: str | None = None
    rl_dir: str = "./rl_io"
    epochs: int = 2
    rollout: int = 1
    start_epoch: int = 1
    frames: int = 0
    kbps: tuple[float, float] | None = None
    qps: tuple[int, int] = (26, 54)
    structure: Structure = "random_access"
    preset: int = 8
    keyint: int = 161
    base: str = ""
    max_delta: float = 1.5
    reward_scale: float = 10.0
    ckpt_interval: int = 5
    ckpt_dir: str = ""
    save_replay_buffer: bool = False
    baseline_stats: str = ""
    device: str = "cpu"
    sac: SacSettings = LEARNER

    def __post_init__(self) -> None:
        for name in ("epochs", "rollout", "start_epoch", "ckpt_interval"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} = {getattr(self, name)}; it is 1 or more")
        if self.encoder is not None and self.rollout > 1:
            raise ConfigError(f"rollout = {self.rollout}: a foreign encoder is met one at a time; use 1")
        if self.kbps is not None and not 0 < self.kbps[0] <= self.kbps[1]:
            raise ConfigError(f"kbps = {self.kbps}; give a range of rates above zero, the lower one first")
        if self.frames < 0:
            raise ConfigError(f"frames = {self.frames}; give how many to code of each video, 0 for all")


@dataclass(frozen=True, eq=False)
class EpisodeTask:
    """Episode `number` of a training with this seed, played by `actor` as it stands.

    clips  the pictures of the videos, which travel where their files are not seen; none for a foreign encoder
    """

    settings: MiniGopTraining
    videos: list[TrainingVideo]
    clips: list[Clip]
    seed: int
    number: int
    actor: SacActor


class MiniGopListener(Protocol):
    """Who wants to hear how it goes; episodes are counted over all epochs, from 0."""

    def decision(self, info: dict[str, Any]) -> None: ...
    def episode(self, number: int, video: str, figures: Figures) -> None: ...
    def epoch(self, epoch: int, figures: Figures) -> None: ...
    def saved(self, path: Path) -> None: ...


class MiniGopTrainer:
    """One training: `attach` it to a run, then `train` to the end from where the run stands, or `infer`."""

    run: Run
    listener: MiniGopListener

    def __init__(self, settings: MiniGopTraining, videos: list[TrainingVideo], seed: int, jobs: int = 1) -> None:
        if not videos:
            raise ConfigError("there is nothing to learn on; give --clip, --videos or --use-dataset")
        self.settings, self.videos, self.seed, self.jobs = settings, videos, seed, jobs
        self.env = episode.environment(settings, videos)
        device = str(pick_device(settings.device))
        learner_env = OneAtATime(episode.for_learner(self.env, settings))
        self.model = make_sac(settings.sac, learner_env, seed=seed, device=device)
        self.next_episode = (settings.start_epoch - 1) * len(videos)
        self.played: list[Figures] = []  # in the epoch under way
        self.figures: Figures = {}  # of the last whole epoch

    @property
    def episodes(self) -> int:
        """To reach in all."""
        return self.settings.epochs * len(self.videos)

    @property
    def base(self) -> str:
        """Whom the agent corrects."""
        return base_of(self.settings) or "none"

    def facts(self) -> dict[str, Any]:
        """What the training depends on besides its settings."""
        encoder = self.settings.encoder or f"{RANDOM_ACCESS.backend} {capabilities(RANDOM_ACCESS.backend).version}"
        return {"encoder": encoder, "videos": [video.name for video in self.videos]}

    def attach(self, run: Run, listener: MiniGopListener, checkpoint: str = "") -> None:
        """Go on from the run's newest checkpoint, else from the file `checkpoint`, if there is one."""
        self.run, self.listener = run, listener
        saved: Checkpoint | checkpoint_file.CheckpointFile | None = run.resume()
        if saved is None and checkpoint:
            saved = checkpoint_file.load(checkpoint)
        if saved is not None:
            with restoring(checkpoint or run.folder):
                self._go_on_from(saved)

    def _go_on_from(self, saved: Checkpoint | checkpoint_file.CheckpointFile) -> None:
        checkpointing.restore(self.model, saved.tensors, saved.state["learner"])
        # A data set of another size has other episodes: whole epochs are what carries over.
        done = saved.state["episode"] if saved.state["videos"] == len(self.videos) else None
        reached = saved.state["epoch"] * len(self.videos) if done is None else done
        self.next_episode = max(self.next_episode, reached)
        self.played = saved.state["played"] if self.next_episode == done else []

    def train(self, saving: Saving | None = None) -> Figures:
        """Learn to the end and save what was learned; an interrupt ends it after the episode under way."""
        try:
            with saving or Saving() as saving, executor(self.jobs, restarts=2) as work:
                while self.next_episode < self.episodes:
                    self._learn_from_rollout(work)
                    epoch, place = divmod(self.next_episode, len(self.videos))
                    if place == 0:
                        self._end_epoch(epoch)
                    last = self.next_episode == self.episodes
                    saving.reached(f"episode {self.next_episode}", self._save, due=place == 0, last=last)
        except Interrupted:
            self.save_model("interrupted")
            raise
        self.save_model("final")
        return self.figures

    def infer(self) -> Figures:
        """Code every video once as the policy has it, without learning."""
        policy = actor_policy(self.model)
        played: list[Figures] = []
        for number, video in enumerate(self.videos):
            kbps = self.env.draw_kbps(number, stream(self.seed, "kbps", number))
            observation, _ = self.env.reset(
                seed=episode.episode_seed(self.seed, number), options={"clip": number, "kbps": kbps}
            )
            steps: list[Step] = []
            ended = False
            while not ended:
                observation, reward, ended, _, info = self.env.step(policy.act(observation))
                steps.append((float(reward), info))
            self.env.write_outputs()
            played.append(self._note(number, video, steps))
        return _means(played)

    def save_model(self, kind: str) -> None:
        """The policy alone, as other commands load it."""
        chosen = self.settings
        facts = {"stage": "minigop", "base": base_of(chosen), "max_delta": chosen.max_delta, "sees": list(NAMES)}
        trained = {"structure": chosen.structure, "steps": self.model.num_timesteps}
        policy = actor_policy(self.model, **facts, **trained, videos=[video.name for video in self.videos])
        policy.save(self.run.new_artifact(policy_file.model_name(kind, "sac")))

    def close(self) -> None:
        self.env.close()
        episode.forget_environment()

    # -- one episode, one epoch ----------------------------------------------------------------------------------

    def _learn_from_rollout(self, work: Executor) -> None:
        """Play some episodes of the epoch under way with the policy as it is, and learn from one after the other."""
        place = self.next_episode % len(self.videos)
        count = min(self.settings.rollout, len(self.videos) - place)
        actor = acting(self.model)
        tasks = [
            EpisodeTask(self.settings, self.videos, self.env.clips, self.seed, self.next_episode + number, actor)
            for number in range(count)
        ]
        for played in work.map(episode.play, tasks, name=lambda task: f"episode {task.number}"):
            learn_from(self.model, played, self.settings.sac.updates)
            video = self.videos[episode.video_of(len(self.videos), self.seed, self.next_episode)]
            steps = [(reward / self.settings.reward_scale, info) for reward, info in played.steps]
            self.played.append(self._note(self.next_episode, video, steps))
            self.next_episode += 1

    def _note(self, number: int, video: TrainingVideo, steps: list[Step]) -> Figures:
        """Report and log what an episode gave."""
        infos = [info for _, info in steps]
        for info in infos:
            self.listener.decision(info)
        reports = [one for info in infos for one in info["feedback"]]
        frames = sum(one["frames"] for one in reports)
        figures = {
            "return": sum(reward for reward, _ in steps),
            "cost": float(sum(np.ravel(info["cost"])[0] for info in infos)),
            "rate_error": float(infos[-1]["rate_error"]),
            "bits": float(sum(one["bits"] for one in reports)),
            "psnr_y": sum(one["psnr_y"] * one["frames"] for one in reports) / frames,
        }
        learner = checkpointing.figures(self.model.logger.name_to_value)
        self.model.logger.name_to_value.clear()
        self.run.log_metrics(number, {f"episode/{name}": value for name, value in figures.items()} | learner)
        deltas = [info["delta"] for info in infos]
        self.run.log_episode({"episode": number, "video": video.name, **figures, "deltas": deltas})
        self.listener.episode(number, video.name, figures)
        return figures

    def _end_epoch(self, epoch: int) -> None:
        self.figures, self.played = _means(self.played), []
        self.run.log_metrics(
            self.next_episode - 1, {f"epoch/{name}": value for name, value in self.figures.items()} | {"epoch": epoch}
        )
        self.listener.epoch(epoch, self.figures)
        if epoch % self.settings.ckpt_interval == 0 or epoch == self.settings.epochs:
            folder = Path(self.settings.ckpt_dir) if self.settings.ckpt_dir else self.run.artifacts
            path = own_path(folder / f"checkpoint_epoch_{epoch}.pt")
            checkpoint_file.save(path, self.next_episode, *self._export(replay=self.settings.save_replay_buffer))
            self.listener.saved(path)

    def _save(self) -> None:
        """So that --resume goes on exactly, with all that was seen."""
        self.run.checkpoint(self.next_episode, *self._export(replay=True))

    def _export(self, *, replay: bool) -> tuple[checkpointing.Arrays, dict[str, Any]]:
        tensors, learner = checkpointing.export(self.model, replay=replay)
        episode, videos = self.next_episode, len(self.videos)
        place = {"episode": episode, "epoch": episode // videos, "videos": videos, "played": self.played}
        return tensors, {"learner": learner, **place}


def _means(played: list[Figures]) -> Figures:
    """Mean figures of episodes, and the mean size of their rate errors."""
    means = {name: float(np.mean([each[name] for each in played])) for name in played[0]}
    return means | {"abs_rate_error": float(np.mean([abs(each["rate_error"]) for each in played]))}
