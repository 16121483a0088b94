"""A mini-GOP controller plays a clip at a bitrate, once: the encode is kept under all that it depends on."""

from __future__ import annotations

import hashlib
import inspect
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import reelrl.encode
from reelrl.encode.encode_cache import CpuClock, Encode, Stream, cached_encode
from reelrl.encode.features import frame_features
from reelrl.encode.minigop_run import run_controller
from reelrl.encode.minigop_source import open_source
from reelrl.names import CONTROLLERS, make

if TYPE_CHECKING:
    from reelrl.content.clip import Clip
    from reelrl.encode.minigop import MiniGopController
    from reelrl.evaluation.minigop import Protocol


def controller_encode(spec: str, clip: Clip, how: Protocol, kbps: float) -> Encode:
    """What the controller makes of the clip at a bitrate; probe pass and analysis are charged, kept or not."""
    settings = replace(how.settings, ssim=True)

    def make_stream() -> Stream:
        source = open_source(clip, settings, kbps=kbps, goal=how.goal, buffer_s=how.buffer_s)
        run = run_controller(source, load(spec), how.seed)
        seconds = _analysis_s(clip) + source.probe_cpu_s + run.cpu_s
        return Stream(source.packets, seconds, run.episode.passes + 1, run.deltas)

    decisions = {"by": identity(spec), "kbps": kbps, "goal": how.goal, "buffer_s": how.buffer_s, "seed": how.seed}
    return cached_encode(clip, settings, decisions, make_stream, with_vmaf=how.with_vmaf)


def load(spec: str) -> MiniGopController:
    """A controller by what people type: a name with numbers in brackets, a policy file, a run, "module:Class"."""
    controller: MiniGopController = make(CONTROLLERS, spec)
    return controller


def check_controller(spec: str) -> None:
    """Complain about what cannot be loaded."""
    load(spec)


def is_privileged(spec: str) -> bool:
    return load(spec).privileged


@lru_cache(maxsize=1)
def _analysis_s(clip: Clip) -> float:
    """CPU time of our own look at the pictures, which the encoder's modes do without."""
    clock = CpuClock()
    for _ in frame_features(clip):
        pass
    return clock.seconds


@cache
def identity(spec: str) -> dict[str, Any]:
    """Who decides, as plain data: the words, the policy's bytes, and the code. Edited code is another controller."""
    place = Path(spec)
    policy = hashlib.sha256(place.read_bytes()).hexdigest() if place.is_file() else ""
    files = {*Path(reelrl.encode.__path__[0]).glob("*minigop*.py"), Path(inspect.getfile(type(load(spec))))}
    code = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(files)))
    return {"spec": spec, "policy": policy, "code": code.hexdigest()}
