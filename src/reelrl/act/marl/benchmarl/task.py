"""Doom as a BenchMARL task.

task = DoomPettingZooTask.DOOM_PZ.get_from_yaml()          # or the path of a YAML file
experiment = Experiment(task=task, algorithm_config=MappoConfig.get_from_yaml(), ...)
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from reelrl import seeding
from reelrl.act.doom.one_side import OneSide
from reelrl.act.doom.teams import BlindTeam
from reelrl.act.marl import yaml_files
from reelrl.act.marl.benchmarl.frozen_encoder import EMBEDDING, EncodeVideo
from reelrl.act.marl.benchmarl.models import clip_shape
from reelrl.act.marl.benchmarl.rollouts import GROUP, INFO_KEYS
from reelrl.act.marl.task_config import DoomTaskConfig
from reelrl.act.video.encoder import read_encoder_settings
from reelrl.settings import config

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensordict import TensorDictBase
    from torchrl.data import Composite
    from torchrl.envs import EnvBase, Transform

from benchmarl.environments.common import Task, TaskClass
from torchrl.envs import PettingZooWrapper


class DoomWrapper(PettingZooWrapper):  # type: ignore[misc]
    """Starts engines when an episode begins, not when specs are asked for: most copies of an env are never played."""

    _started = False

    def _reset_parallel(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        if not hasattr(self, "cached_reset_output_zero"):  # torchrl looks what infos there are
            return {}, {agent: dict.fromkeys(INFO_KEYS, 0.0) for agent in self._env.possible_agents}
        if not self._started:
            kwargs = {"seed": self.seed, **kwargs}
            self._started = True
        observations, infos = super()._reset_parallel(**kwargs)
        return observations, _scalar_infos(infos)

    def _step_parallel(self, tensordict: TensorDictBase) -> tuple[Any, ...]:
        *answer, infos = super()._step_parallel(tensordict)
        return (*answer, _scalar_infos(infos))

    def render(self, **_: Any) -> Any:
        return self._env.render()


class DoomPettingZooEnv(TaskClass):  # type: ignore[misc]
    """A team in one match, of two sides the first; `config` holds the keys of `DoomTaskConfig`."""

    def __init__(self, name: str, config: dict[str, Any]) -> None:
        super().__init__(name, config)
        self.settings = _settings(self.config)

    def get_env_fun(
        self, num_envs: int, continuous_actions: bool, seed: int | None, device: Any
    ) -> Callable[[], EnvBase]:
        del num_envs, continuous_actions  # matches are played one beside the other, with discrete actions
        settings, made = self.settings, [0]

        def make() -> EnvBase:
            # Matches of one training are different matches.
            own = None if seed is None else seeding.seed_for(seed, "match", made[0])
            made[0] += 1
            kwargs = {"categorical_actions": True, "device": device, "seed": own, **settings.wrapper_kwargs}
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "PettingZoo in TorchRL is tested using version")
                env = settings.make_env()
                # BenchMARL's evaluations are played in it: side B is a rule, which stays the same from first to last.
                return DoomWrapper(OneSide(env, BlindTeam("sweep")) if settings.sides == 2 else env, **kwargs)

        return make

    def get_env_transforms(self, env: EnvBase) -> list[Transform]:
        """The frozen encoder, where the settings name one."""
        if self.settings.frozen_encoder is None:
            return []
        key = self.video_key
        clip = clip_shape(env.observation_spec[key], self.settings.team_size, key)
        return [EncodeVideo(read_encoder_settings(self.settings.frozen_encoder), key, clip, env.device)]

    @property
    def video_key(self) -> tuple[str, ...]:
        """Where the video is in what an environment returns."""
        return (GROUP, "observation", "video") if self.settings.aux_observations else (GROUP, "observation")

    def supports_continuous_actions(self) -> bool:
        return False

    def supports_discrete_actions(self) -> bool:
        return True

    def has_render(self, env: EnvBase) -> bool:
        del env
        return True

    def max_steps(self, env: EnvBase) -> int:
        del env
        return self.settings.max_steps

    def group_map(self, env: EnvBase) -> dict[str, list[str]]:
        del env
        return {GROUP: [f"player_{number}" for number in range(self.settings.team_size)]}

    def observation_spec(self, env: EnvBase) -> Composite:
        return _only(env, "observation", EMBEDDING)

    def info_spec(self, env: EnvBase) -> Composite:
        return _only(env, "info")

    def state_spec(self, env: EnvBase) -> None:
        del env

    def action_mask_spec(self, env: EnvBase) -> None:
        del env

    def action_spec(self, env: EnvBase) -> Composite:
        return env.full_action_spec

    @staticmethod
    def env_name() -> str:
        return "doom_pettingzoo"


class DoomPettingZooTask(Task):  # type: ignore[misc]
    """Tasks in Doom."""

    DOOM_PZ = None

    @staticmethod
    def associated_class() -> type[DoomPettingZooEnv]:
        return DoomPettingZooEnv

    def get_from_yaml(self, path: str | None = None) -> DoomPettingZooEnv:
        """The task with the settings of a file; without one, with those that ship."""
        where = path or yaml_files.TASK
        given = yaml_files.read(where)
        yaml_files.require_keys(given, yaml_files.field_names(DoomTaskConfig), where)
        return self.associated_class()(name=self.name, config=given)


def _settings(given: dict[str, Any]) -> DoomTaskConfig:
    return config.from_mapping(DoomTaskConfig, given, foreign=True)


def _scalar_infos(infos: dict[str, Any]) -> dict[str, Any]:
    return {agent: {name: float(info[name]) for name in INFO_KEYS} for agent, info in infos.items()}


def _only(env: EnvBase, *leaves: str) -> Composite:
    spec = env.observation_spec.clone()
    for key in list(spec[GROUP].keys()):
        if key not in leaves:
            del spec[GROUP, key]
    return spec
