"""Encodes of one clip, cached: by libaom's own two passes, and by a controller of ours over the same encoder."""

from __future__ import annotations

import hashlib
import inspect
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import reelrl.encode
from reelrl import names
from reelrl.encode.codecs.aom.first_pass import fresh_two_pass_statistics
from reelrl.encode.codecs.aom.two_pass import TwoPassSession
from reelrl.encode.frameqp.controllers.evolved import EvolvedShape
from reelrl.encode.frameqp.controllers.learned import LearnedFrames
from reelrl.encode.frameqp.run import run_frame_controller
from reelrl.encode.frameqp.source.preparation import FramePreparation
from reelrl.encode.minigop.evaluation.encode_cache import CpuClock, Encode, Stream, cached_encode

if TYPE_CHECKING:
    from reelrl.content.clip import Clip
    from reelrl.encode.codecs.settings import EncoderSettings
    from reelrl.encode.frameqp.protocols import FrameQpController

PUBLIC = "@public"
"""Behind a controller's name: through libaom's public interface alone, without its offsets inside frames."""

_CODE = ("protocols", "run", "source/in_process", "source/plan", "source/preparation", "source/probe")


def own_encode(clip: Clip, settings: EncoderSettings, *, qp: int | None = None, kbps: float | None = None) -> Encode:
    """Libaom alone: at constant quality `qp`, or by its two-pass VBR at `kbps`."""
    if kbps is None:
        settings = replace(settings, rate_control="crf", qp=qp or settings.qp)
    else:
        settings = replace(settings, rate_control="vbr", target_kbps=kbps)
    settings = replace(settings, ssim=True).for_clip(clip)

    def make() -> Stream:
        clock = CpuClock()
        statistics = fresh_two_pass_statistics(clip, settings)
        with TwoPassSession(clip, settings, statistics, steered=False) as session:
            session.request()
        return Stream(session.packets, clock.seconds, 2)

    return cached_encode(clip, settings, {"by": "aom-two-pass"}, make)


def steered_encode(spec: str, clip: Clip, settings: EncoderSettings, kbps: float, seed: int) -> Encode:
    """What a controller makes of the clip at a bitrate; first pass and probes are charged, cached or not."""
    settings = replace(settings, ssim=True).for_clip(clip)

    def make() -> Stream:
        clock = CpuClock()
        fresh_two_pass_statistics(clip, settings)
        first_pass_s = clock.seconds
        prepared = FramePreparation(clip, settings, keep_delta_q=not spec.endswith(PUBLIC))
        source = prepared.source(kbps=kbps)
        run = run_frame_controller(source, controller_of(spec), seed)
        seconds = first_pass_s + source.probe_cpu_s + run.cpu_s
        return Stream(run.packets, seconds, run.episode.passes + 2, run.deltas)

    return cached_encode(clip, settings, {"by": _identity(spec), "kbps": kbps, "seed": seed}, make)


def controller_of(spec: str) -> FrameQpController:
    """A controller by name, a rule of `reel fit frameqp` or an agent of `reel fit frameqp-sac` by its file."""
    name = spec.removesuffix(PUBLIC)
    if name.endswith(".safetensors"):
        return LearnedFrames.load(name)
    if names.names_a_file(names.FRAME_CONTROLLERS, name) or name.endswith(".json"):
        return EvolvedShape.load(name)
    made: FrameQpController = names.make_controller(names.FRAME_CONTROLLERS, name, foreign=True)
    return made


@cache
def _identity(spec: str) -> dict[str, Any]:
    """Who decides, as plain data: the words and the code. Edited code is another controller."""
    folder = Path(reelrl.encode.__path__[0])
    kinds = [kind for kind in type(controller_of(spec)).__mro__ if kind is not object]
    files = {*(folder / "frameqp" / f"{part}.py" for part in _CODE), *(Path(inspect.getfile(kind)) for kind in kinds)}
    code = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(files)))
    made = controller_of(spec)
    weights: Any = made.weights.tolist() if isinstance(made, EvolvedShape) else []
    if isinstance(made, LearnedFrames):
        layers = b"".join(array.tobytes() for layer in made.policy.layers for array in layer)
        weights = hashlib.sha256(layers).hexdigest()
    return {"spec": spec, "weights": weights, "code": code.hexdigest()}
