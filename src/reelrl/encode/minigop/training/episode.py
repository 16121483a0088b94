"""One episode of a training, a task of `reelrl.parallel`: which video, at which rate, by the episode's number alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnasium.wrappers import TransformReward

from reelrl.agents.rollouts import play_episode
from reelrl.encode.minigop.training.env import TwoSided, make_environment
from reelrl.seeding import seed_for, stream

if TYPE_CHECKING:
    import gymnasium

    from reelrl.agents.rollouts import Trajectory
    from reelrl.content.clip import Clip
    from reelrl.encode.minigop.train import EpisodeTask, MiniGopTraining
    from reelrl.encode.minigop.training.env import TrainingEnv
    from reelrl.encode.minigop.training.foreign import ForeignEncoderEnv
    from reelrl.encode.minigop.training.videos import TrainingVideo


def play(task: EpisodeTask) -> Trajectory:
    """In the environment of this process: what it has measured of the videos is measured once per process."""
    env = environment(task.settings, task.videos, task.clips)
    options = options_of(env, len(task.videos), task.seed, task.number)
    played = play_episode(
        for_learner(env, task.settings), task.actor, seed=episode_seed(task.seed, task.number), options=options
    )
    env.write_outputs()
    return played


def video_of(videos: int, seed: int, number: int) -> int:
    """An epoch is every video once, in an order of its own."""
    epoch, place = divmod(number, videos)
    return int(stream(seed, "order", epoch).permutation(videos)[place])


def options_of(env: TrainingEnv | ForeignEncoderEnv, videos: int, seed: int, number: int) -> dict[str, Any]:
    """Which video, at which rate: by the number of the episode alone."""
    index = video_of(videos, seed, number)
    return {"clip": index, "kbps": env.draw_kbps(index, stream(seed, "kbps", number))}


def episode_seed(seed: int, number: int) -> int:
    return seed_for(seed, "episode", number)


def for_learner(env: TrainingEnv | ForeignEncoderEnv, settings: MiniGopTraining) -> gymnasium.Env[Any, Any]:
    """With both costs, and rewards as large as the learner likes them."""
    return TransformReward(TwoSided(env), lambda reward: settings.reward_scale * float(reward))


_made: tuple[MiniGopTraining, list[TrainingVideo], TrainingEnv | ForeignEncoderEnv] | None = None


def environment(
    settings: MiniGopTraining, videos: list[TrainingVideo], clips: list[Clip] | None = None
) -> TrainingEnv | ForeignEncoderEnv:
    """The environment of this training in this process, made when it is first asked for."""
    global _made
    if _made is None or _made[:2] != (settings, videos):
        _made = settings, videos, make_environment(settings, videos, clips)
    return _made[2]


def forget_environment() -> None:
    """Close it; whoever asks next gets a new one."""
    global _made
    made, _made = _made, None
    if made is not None:
        made[2].close()
