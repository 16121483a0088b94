"""What is made of BenchMARL's parts: task, models, training.

Whatever is imported from here, this file runs first: it makes BenchMARL 1.5.2 work on the torchrl that we use.
BenchMARL is not on any list of dependencies (it asks for an `av` that is years old), so its absence has its own error.
"""

from __future__ import annotations

import importlib
import logging
import warnings
from functools import partial
from typing import Any

from reelrl.errors import MissingExtra, ReelError
from reelrl.foreign_imports import name_collectors


def _import(module: str, missing: ReelError) -> Any:
    """A foreign module, without the warnings that are its own maker's to heed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise missing from error


_import("torchrl.collectors", MissingExtra("torchrl", "train,marl"))
name_collectors()

_not_there = ReelError("benchmarl is not installed; run: pip install --no-deps benchmarl==1.5.2")
_experiment = _import("benchmarl.experiment.experiment", _not_there)
logging.getLogger("torchrl").setLevel(logging.WARNING)  # it reports every buffer
_experiment.tqdm = partial(_experiment.tqdm, disable=True)  # we show progress ourselves

# torchrl 0.14 checks the shape of greedy actions, and takes the dimension of agents for one too many.
for _name in ("iql", "vdn"):
    _algorithm = _import(f"benchmarl.algorithms.{_name}", _not_there)
    _algorithm.QValueModule = partial(_algorithm.QValueModule, strict_shape=False)


def register() -> None:
    """Make our task and models known to BenchMARL by name, as its hydra files want them."""
    from benchmarl.environments import task_config_registry
    from benchmarl.models import model_config_registry

    from reelrl.act.marl.benchmarl.models import VideoCentralCriticModelConfig, VideoPolicyModelConfig
    from reelrl.act.marl.benchmarl.task import DoomPettingZooTask

    task_config_registry["doom_pettingzoo/doom_pz"] = DoomPettingZooTask.DOOM_PZ
    model_config_registry["video_policy"] = VideoPolicyModelConfig
    model_config_registry["video_central_critic"] = VideoCentralCriticModelConfig
