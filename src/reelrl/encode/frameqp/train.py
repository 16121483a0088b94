"""An agent over frames learns by constrained SAC, from the rule: its action is added to what `rate-model` says.

    clips x rates ──► `rollout` episodes by one policy, side by side ──► learn from each ──► the policy alone, as a file

Which clip is coded at which rate in episode n follows from the seed and n alone, and so does its noise.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.wrappers import TransformReward

from reelrl.agents.constrained_sac import MultiplierTerms
from reelrl.agents.episodic import OneAtATime, SacSettings, acting, actor_policy, learn_from, make_sac
from reelrl.agents.rollouts import SacActor, Trajectory, play_episode
from reelrl.content.clip import Clip
from reelrl.encode.frameqp.env import FrameQpEnv
from reelrl.encode.frameqp.state import NAMES
from reelrl.errors import ConfigError
from reelrl.seeding import seed_for, stream

if TYPE_CHECKING:
    from collections.abc import Callable

    import gymnasium

    from reelrl.parallel import Executor
    from reelrl.runs.policy_file import Policy

GUIDE = "rate-model"

# A clip gains or loses tenths of a dB in all, over some sixty decisions: rewards are made larger, noise is kept small.
LEARNER = SacSettings(
    learning_rate=5e-4,
    discount=0.99,
    starts=300,
    temperature=0.02,
    target_entropy=-1.5,
    cost_limits=(0.01,),
    multiplier=MultiplierTerms(start=5.0, proportional=20.0, integral=2.0, derivative=5.0, ceiling=200.0),
)


@dataclass(frozen=True, kw_only=True)
class FrameTraining:
    """How frame control is learned.

    episodes      each is a clip at one of the rates that constant quality takes at `qps`
    rollout       episodes that one policy plays before it learns from them
    frames        of each clip
    max_steps     of the quantiser index that an action of 1 stands for
    reward_scale  what a dB counts for the learner; figures that people see are in dB
    """

    episodes: int = 400
    rollout: int = 4
    frames: int = 64
    qps: tuple[int, ...] = (34, 46)
    max_steps: float = 6.0
    reward_scale: float = 30.0
    sac: SacSettings = field(default=LEARNER)

    def __post_init__(self) -> None:
        for name in ("episodes", "rollout", "frames"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} = {getattr(self, name)}; it is 1 or more")
        if not self.qps:
            raise ConfigError("no QPs; give one or more whose rates are met")


@dataclass(frozen=True, eq=False)
class FrameEpisodeTask:
    """Episode `number` of a training with this seed, played by `actor` as it stands."""

    settings: FrameTraining
    clips: tuple[Clip, ...]
    seed: int
    number: int
    actor: SacActor


def play(task: FrameEpisodeTask) -> Trajectory:
    """In the environment of this process: what it has measured of the clips is measured once per process."""
    env = _environment(task.clips, task.settings)
    lessons = len(task.clips) * len(task.settings.qps)
    epoch, place = divmod(task.number, lessons)
    at = int(stream(task.seed, "order", epoch).permutation(lessons)[place])
    clip, rate = divmod(at, len(task.settings.qps))
    options = {"clip": clip, "kbps": env.kbps_at(clip, task.settings.qps[rate])}
    return play_episode(
        for_learner(env, task.settings), task.actor, seed=seed_for(task.seed, "episode", task.number), options=options
    )


def for_learner(env: FrameQpEnv, settings: FrameTraining) -> gymnasium.Env[Any, Any]:
    """With rewards as large as the learner likes them."""
    return TransformReward(env, lambda reward: settings.reward_scale * float(reward))


@lru_cache(maxsize=1)
def _environment(clips: tuple[Clip, ...], settings: FrameTraining) -> FrameQpEnv:
    return FrameQpEnv(clips, guide=GUIDE, max_frames=settings.frames, max_steps=settings.max_steps)


def train(
    settings: FrameTraining,
    clips: tuple[Clip, ...],
    seed: int,
    work: Executor,
    on_episode: Callable[[int, float, float], None] | None = None,
    go_on: Callable[[], bool] = lambda: True,
) -> Policy:
    """The agent after all episodes, or after the rollout under way when `go_on` says no.

    `on_episode` gets the number, the gain in dB over the rule and the rate error of each; the policy's facts have
    both too.
    """
    env = FrameQpEnv(clips, guide=GUIDE, max_frames=settings.frames, max_steps=settings.max_steps)
    model = make_sac(settings.sac, OneAtATime(for_learner(env, settings)), seed=seed)
    gains: list[float] = []
    errors: list[float] = []
    with closing(env):
        while len(gains) < settings.episodes and (not gains or go_on()):
            actor = acting(model)
            numbers = range(len(gains), min(len(gains) + settings.rollout, settings.episodes))
            tasks = [FrameEpisodeTask(settings, clips, seed, number, actor) for number in numbers]
            for played in work.map(play, tasks, name=lambda task: f"episode {task.number}"):
                learn_from(model, played, settings.sac.updates)
                model.logger.name_to_value.clear()
                gains.append(float(np.sum(played.rewards)) / settings.reward_scale)
                errors.append(float(played.infos[-1]["rate_error"]))
                if on_episode is not None:
                    on_episode(len(gains) - 1, gains[-1], errors[-1])
    return actor_policy(
        model,
        stage="frameqp",
        guide=GUIDE,
        max_steps=settings.max_steps,
        sees=list(NAMES),
        clips=[clip.name for clip in clips],
        qps=list(settings.qps),
        seed=seed,
        steps=model.num_timesteps,
        gains_db=[round(gain, 4) for gain in gains],
        rate_errors=[round(error, 4) for error in errors],
    )
