"""A clip at a bitrate by a mini-GOP controller, made once: the encode is cached by all that it depends on."""

from __future__ import annotations

import hashlib
import inspect
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import reelrl.encode
from reelrl.encode.features import frame_features
from reelrl.encode.minigop.controllers.imitation import Imitation
from reelrl.encode.minigop.controllers.learned import LearnedMiniGop, load_minigop_controller
from reelrl.encode.minigop.controllers.oracle import DirectSearch
from reelrl.encode.minigop.evaluation.encode_cache import CpuClock, Encode, Stream, cached_encode
from reelrl.encode.minigop.run import run_controller
from reelrl.encode.minigop.source.preparation import Preparation

if TYPE_CHECKING:
    from reelrl.content.clip import Clip
    from reelrl.encode.minigop.evaluate import MiniGopEvaluationPlan
    from reelrl.encode.minigop.protocols import MiniGopController

_SOURCE = ("in_process", "plan", "preparation", "probe", "starting_qp")
_CODE = ("controllers/bits", "protocols", "state", *(f"source/{part}" for part in _SOURCE))
"""Modules between a controller's words and the encoder."""


def controller_encode(spec: str, clip: Clip, plan: MiniGopEvaluationPlan, kbps: float) -> Encode:
    """What the controller makes of the clip at a bitrate; probe pass and analysis are charged, cached or not."""
    settings = replace(plan.settings, ssim=True)

    def make_stream() -> Stream:
        controller, prepared = load_minigop_controller(spec), Preparation(clip, settings)
        if isinstance(controller, DirectSearch):
            controller.study(prepared, plan.headroom)
        source = prepared.source(kbps=kbps, goal=plan.goal, buffer_s=plan.buffer_s, headroom=plan.headroom)
        run = run_controller(source, controller, plan.seed)
        searched = controller.encodes if isinstance(controller, DirectSearch) else 0
        seconds = _analysis_s(clip) + source.probe_cpu_s + run.cpu_s
        return Stream(source.packets, seconds, run.episode.passes + 1 + searched, run.deltas)

    asked = {"kbps": kbps, "goal": plan.goal, "buffer_s": plan.buffer_s, "seed": plan.seed, "headroom": plan.headroom}
    decisions = {"by": identity(spec)} | asked
    return cached_encode(clip, settings, decisions, make_stream, with_vmaf=plan.with_vmaf)


def check_controller(spec: str) -> None:
    """Complain about what cannot be loaded."""
    load_minigop_controller(spec)


def is_privileged(spec: str) -> bool:
    return load_minigop_controller(spec).privileged


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
    controller = load_minigop_controller(spec)
    folder = Path(reelrl.encode.__path__[0])
    files = {*(folder / "minigop" / f"{part}.py" for part in _CODE), *_files(controller)}
    code = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(files)))
    policy = Path(spec).read_bytes() if isinstance(controller, Imitation) else b""
    if isinstance(controller, LearnedMiniGop):
        policy = controller.path.read_bytes()
    return {"spec": spec, "policy": hashlib.sha256(policy).hexdigest(), "code": code.hexdigest()}


def _files(controller: MiniGopController) -> set[Path]:
    """Where a controller is written: its class, those it extends, and the controller that it corrects."""
    kinds = [kind for kind in type(controller).__mro__ if kind is not object]
    base = controller.base if isinstance(controller, LearnedMiniGop) else None
    return {Path(inspect.getfile(kind)) for kind in kinds} | (_files(base) if base is not None else set())
