"""One episode of a training, a task of `reelrl.parallel`: its chance follows from the episode's number alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnasium import spaces
from gymnasium.wrappers import DiscretizeAction

from reelrl.agents.rollouts import play_episode
from reelrl.agents.training import Retraceable
from reelrl.encode.superblock.env import SuperblockQpEnv
from reelrl.seeding import seed_for

if TYPE_CHECKING:
    from reelrl.agents.rollouts import Trajectory
    from reelrl.content.clip import Clip
    from reelrl.encode.superblock.train import MapEpisodeTask, SuperblockTraining

LEVELS = 7
"""Options per weight when DQN learns the weights of features."""


def play(task: MapEpisodeTask) -> Trajectory:
    """In the environment of this process: the baseline of a clip is coded once per process."""
    env = environment(task.settings, task.clip)
    env.prepared.name = task.file  # as records have it, wherever they are made
    if task.normalisation is not None:
        env.normalise_by(task.normalisation)
    return play_episode(
        Retraceable(for_learner(env, task.settings)), task.actor, seed=seed_for(task.seed, "episode", task.number)
    )


def for_learner(env: SuperblockQpEnv, settings: SuperblockTraining) -> Any:
    """The environment with actions that the algorithm can choose among."""
    if settings.algorithm != "dqn" or not isinstance(env.action_space, spaces.Box):
        return env
    return DiscretizeAction(env, LEVELS, multidiscrete=True)


def make_environment(settings: SuperblockTraining, clip: str | Clip) -> SuperblockQpEnv:
    """As the settings have it, of a clip or a name of one."""
    return SuperblockQpEnv(
        clip,
        lambda_rd=settings.lambda_rd,
        state=settings.state,
        reward=settings.reward,
        encoder=settings.encoder,
        max_frames=settings.max_frames,
        action=settings.action,
        target_kbps=settings.target_kbps,
        weights=settings.weights,
        normalise=settings.normalise,
    )


_made: dict[str, tuple[SuperblockTraining, SuperblockQpEnv]] = {}
"""Environments of this process, by the content of their clips."""


def environment(settings: SuperblockTraining, clip: Clip) -> SuperblockQpEnv:
    """That of a clip, made when it is first asked for."""
    known = _made.get(clip.content_hash)
    if known is None or known[0] != settings:
        return share(settings, make_environment(settings, clip))
    return known[1]


def share(settings: SuperblockTraining, env: SuperblockQpEnv) -> SuperblockQpEnv:
    """Play episodes of its clip in this one."""
    before = _made.get(env.clip.content_hash)
    if before is not None and before[1] is not env:
        before[1].close()
    _made[env.clip.content_hash] = settings, env
    return env


def forget_environments() -> None:
    """Close them; whoever asks next gets new ones."""
    while _made:
        _made.popitem()[1][1].close()
