"""Adaptive bitrate streaming: traces, ladders, the network rule and its fast twins, controllers.

    env = ABREnv("traces/", "ladder.json")          # or gymnasium.make("reelrl/Abr-v0", ...)
    env = ABREnv(trace, ladder, preset="pensieve", noise=False)

Names are imported when they are first used, so that the rule and its torch twin need neither gymnasium nor numba.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelrl.names import lazy

if TYPE_CHECKING:
    from reelrl.stream.data.ladders import Ladder as Ladder
    from reelrl.stream.data.ladders import read_ladder as read_ladder
    from reelrl.stream.data.traces import Trace as Trace
    from reelrl.stream.data.traces import load_movie_json as load_movie_json
    from reelrl.stream.data.traces import load_trace as load_trace
    from reelrl.stream.data.traces import read_trace as read_trace
    from reelrl.stream.data.traces import read_traces as read_traces
    from reelrl.stream.playback import load_bitrate_controller as load_bitrate_controller
    from reelrl.stream.playback import load_controller as load_controller
    from reelrl.stream.simulator.env import ABREnv as ABREnv
    from reelrl.stream.simulator.environment import Environment as Environment
    from reelrl.stream.simulator.observation import BUFFER_NORM_FACTOR as BUFFER_NORM_FACTOR
    from reelrl.stream.simulator.observation import DEFAULT_QUALITY as DEFAULT_QUALITY
    from reelrl.stream.simulator.observation import S_INFO as S_INFO
    from reelrl.stream.simulator.observation import S_LEN as S_LEN
    from reelrl.stream.simulator.qoe import Qoe as Qoe
    from reelrl.stream.simulator.torch_env import TorchAbr as TorchAbr
    from reelrl.stream.simulator.vector_env import AbrVectorEnv as AbrVectorEnv

_HOMES = {
    "ABREnv": "simulator.env",
    "AbrVectorEnv": "simulator.vector_env",
    "BUFFER_NORM_FACTOR": "simulator.observation",
    "DEFAULT_QUALITY": "simulator.observation",
    "Environment": "simulator.environment",
    "Ladder": "data.ladders",
    "Qoe": "simulator.qoe",
    "S_INFO": "simulator.observation",
    "S_LEN": "simulator.observation",
    "TorchAbr": "simulator.torch_env",
    "Trace": "data.traces",
    "load_bitrate_controller": "playback",
    "load_controller": "playback",
    "load_movie_json": "data.traces",
    "load_trace": "data.traces",
    "read_ladder": "data.ladders",
    "read_trace": "data.traces",
    "read_traces": "data.traces",
}

__all__ = list(_HOMES)
__getattr__, __dir__ = lazy(__name__, _HOMES)
