"""One session from start to end: a controller, a trace, a video, and what the viewer got."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.errors import CheckpointError
from reelrl.names import BITRATE_CONTROLLERS, make_controller, names_a_file, resolve
from reelrl.runs.policy_file import load as load_fitted
from reelrl.stream.controllers.protocol import EpisodeInfo
from reelrl.stream.simulator.env import ABREnv

if TYPE_CHECKING:
    from reelrl.stream.controllers.protocol import Controller
    from reelrl.stream.data.ladders import Ladder
    from reelrl.stream.data.traces import Trace


@dataclass(frozen=True)
class Playback:
    """What one session was worth. Means are per chunk and leave out the first, which nobody chose."""

    controller: str
    trace: str
    video: str
    seed: int
    qoe: float
    quality: float
    rebuffer: float  # what stalls cost
    smooth: float  # what switches cost
    rebuffer_s: float
    switches: int
    optimum: bool = False  # nothing better was possible, and that is proven
    timeline: dict[str, list[float]] = field(repr=False, default_factory=dict)

    def row(self) -> dict[str, Any]:
        """The record without its timeline."""
        record = asdict(self)
        del record["timeline"]
        return record


def load_bitrate_controller(name: str) -> Controller:
    """A controller by name, by run folder or policy file, or as "package.module:Class".

    Arguments may follow in brackets: "bba(5,10)", "robustmpc(7)". A name goes before a file of that name.
    """
    if names_a_file(BITRATE_CONTROLLERS, name):
        kind = _kind_of_file(name)
        if kind is None:
            from reelrl.stream.controllers.learned import load_learned  # imports torch

            return load_learned(name)
        made: Controller = resolve(BITRATE_CONTROLLERS, kind)(name)
        return made
    controller: Controller = make_controller(BITRATE_CONTROLLERS, name, foreign=True)
    return controller


def _kind_of_file(path: str) -> str | None:
    """Which baseline a file is for; none: what `reel train abr` leaves."""
    if path.endswith(".pth"):
        return "pensieve-ppo"
    if path.endswith(".safetensors") and Path(path).is_file():
        # A fitted net says whose it is. Other files, broken ones too, are for the reader of trained policies.
        with suppress(CheckpointError):
            kind = load_fitted(path).facts.get("controller")
            return kind if kind in ("fugu", "comyco") else None
    return None


load_controller = load_bitrate_controller  # its name in version 0.1


def play(
    controller: Controller,
    trace: Trace,
    ladder: Ladder,
    *,
    name: str = "",
    seed: int = 0,
    preset: str | None = "pensieve",
    noise: bool = False,
    qoe: str = "linear",
    buffer_s: float | None = None,
    queue_delay_ms: float = 0.0,
    timeline: bool = False,
) -> Playback:
    """Play the whole video from the beginning of the trace."""
    env = ABREnv(
        trace,
        ladder,
        seed,
        queue_delay_ms=queue_delay_ms,
        preset=preset,
        noise=noise,
        random_start=False,
        qoe=qoe,
        state="wide",
        buffer_s=buffer_s,
    )
    observation, info = env.reset(seed=seed)
    known = trace if controller.privileged else None
    controller.reset(seed, EpisodeInfo(env.net_env.video, env.qoe, env.net_env.rule, env.default_quality, known))
    infos = [info]
    rewards: list[float] = []
    ended = False
    while not ended:
        observation, reward, ended, _, info = env.step(controller.act(observation))
        rewards.append(reward)
        infos.append(info)
    columns = {key: [float(each[key]) for each in infos] for key in info}
    return Playback(
        controller=name or type(controller).__name__.lower(),
        trace=trace.name,
        video=ladder.name,
        seed=seed,
        qoe=float(np.mean(rewards)),
        quality=float(np.mean(columns["reward_quality"][1:])),
        rebuffer=-float(np.mean(columns["reward_rebuffer"][1:])),
        smooth=-float(np.mean(columns["reward_smooth"][1:])),
        rebuffer_s=float(np.sum(columns["rebuffer_s"][1:])),
        switches=int(np.count_nonzero(np.diff(columns["bitrate_kbps"]))),
        optimum=bool(getattr(controller, "exact", False)),
        timeline={"reward": [0.0, *rewards], **columns} if timeline else {},
    )
