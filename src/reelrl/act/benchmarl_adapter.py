"""The one door to BenchMARL: makes 1.5.2 work on the torchrl we use. Import it before anything of `benchmarl`.

BenchMARL is not on any list of dependencies (it asks for an `av` that is years old), so its absence has its own error.
"""

from __future__ import annotations

import importlib
import logging
import warnings
from functools import partial
from typing import Any

from reelrl.errors import MissingExtra, ReelError

try:
    import torchrl.collectors as _collectors
    from tqdm import tqdm as _tqdm
except ImportError as error:
    raise MissingExtra(error.name or "torchrl", "train,marl") from error

# torchrl 0.13 renamed the class; BenchMARL imports it by the old name.
if not hasattr(_collectors, "SyncDataCollector"):
    _collectors.SyncDataCollector = _collectors.Collector

try:
    with warnings.catch_warnings():
        # What BenchMARL's and torchrl's own modules do at import is not the user's to correct.
        warnings.simplefilter("ignore")
        _experiment: Any = importlib.import_module("benchmarl.experiment.experiment")
except ModuleNotFoundError as error:
    if error.name != "benchmarl":
        raise
    raise ReelError("benchmarl is not installed; run: pip install --no-deps benchmarl==1.5.2") from error

logging.getLogger("torchrl").setLevel(logging.WARNING)  # it tells of every buffer
_experiment.tqdm = partial(_tqdm, disable=True)  # we show progress ourselves


def register() -> None:
    """Make our task and models known to BenchMARL by name, as its hydra files want them."""
    from benchmarl.environments import task_config_registry
    from benchmarl.models import model_config_registry

    from reelrl.act.task import DoomPettingZooTask
    from reelrl.act.video_critic import VideoCentralCriticModelConfig
    from reelrl.act.video_policy import VideoPolicyModelConfig

    task_config_registry["doom_pettingzoo/doom_pz"] = DoomPettingZooTask.DOOM_PZ
    model_config_registry["video_policy"] = VideoPolicyModelConfig
    model_config_registry["video_central_critic"] = VideoCentralCriticModelConfig


def algorithms() -> dict[str, Any]:
    """BenchMARL's algorithms by name: their config classes."""
    from benchmarl.algorithms import algorithm_config_registry

    return dict(algorithm_config_registry)
