"""Adaptive bitrate streaming: traces, ladders, the network rule and its fast twins, controllers.

    env = ABREnv("traces/", "ladder.json")          # or gymnasium.make("reelrl/Abr-v0", ...)
    env = ABREnv(trace, ladder, preset="pensieve", noise=False)

Names are imported when they are first used, so that the rule and its torch twin need neither gymnasium nor numba.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reelrl.stream.env import ABREnv as ABREnv
    from reelrl.stream.ladders import Ladder as Ladder
    from reelrl.stream.ladders import read_ladder as read_ladder
    from reelrl.stream.observation import BUFFER_NORM_FACTOR as BUFFER_NORM_FACTOR
    from reelrl.stream.observation import DEFAULT_QUALITY as DEFAULT_QUALITY
    from reelrl.stream.observation import S_INFO as S_INFO
    from reelrl.stream.observation import S_LEN as S_LEN
    from reelrl.stream.playback import load_controller as load_controller
    from reelrl.stream.qoe import Qoe as Qoe
    from reelrl.stream.simulator import Environment as Environment
    from reelrl.stream.torch_env import TorchAbr as TorchAbr
    from reelrl.stream.traces import Trace as Trace
    from reelrl.stream.traces import load_movie_json as load_movie_json
    from reelrl.stream.traces import load_trace as load_trace
    from reelrl.stream.traces import read_trace as read_trace
    from reelrl.stream.traces import read_traces as read_traces
    from reelrl.stream.vector import AbrVectorEnv as AbrVectorEnv

_HOMES = {
    "ABREnv": "env",
    "AbrVectorEnv": "vector",
    "BUFFER_NORM_FACTOR": "observation",
    "DEFAULT_QUALITY": "observation",
    "Environment": "simulator",
    "Ladder": "ladders",
    "Qoe": "qoe",
    "S_INFO": "observation",
    "S_LEN": "observation",
    "TorchAbr": "torch_env",
    "Trace": "traces",
    "load_controller": "playback",
    "load_movie_json": "traces",
    "load_trace": "traces",
    "read_ladder": "ladders",
    "read_trace": "traces",
    "read_traces": "traces",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
