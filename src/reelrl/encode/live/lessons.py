"""What predictors learn from: development clips coded at QPs that wander, each frame with its looks and its bits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from reelrl.encode.codecs.session import EncoderSession
from reelrl.encode.live.clips import open_live
from reelrl.encode.live.coding import LIVE
from reelrl.encode.live.frame_look import FrameLook, FrameLooker
from reelrl.encode.live.structure import LEVELS, SceneWatch, layer_of

if TYPE_CHECKING:
    from reelrl.content.clip import Clip

_OFFSETS = (-8.0, -1.5, 2.0)
_DRIFT, _JUMP, _JUMP_SHARE, _JITTER = 1.0, 12.0, 0.04, 1.0  # QP steps of the wandering, and how often it jumps


@dataclass(frozen=True)
class LiveLesson:
    """One encode; lists have an entry for each frame."""

    clip: str
    pixels: int
    looks: list[FrameLook]
    layers: list[int]
    afresh: list[bool]
    qps: list[int]
    bits: list[int]


def lessons_of(name: str, count: int, preset: int, seed: int) -> list[LiveLesson]:
    """A clip coded `count` times, each time at other QPs."""
    clip = open_live(name).load()
    looker = FrameLooker(clip.width, clip.height)
    looks = [looker.look(frame) for frame in clip]
    rng = np.random.default_rng([seed, len(name), clip.frame_count])
    return [_lesson(clip, looks, preset, rng) for _ in range(count)]


def _lesson(clip: Clip, looks: list[FrameLook], preset: int, rng: np.random.Generator) -> LiveLesson:
    settings = replace(LIVE.for_clip(clip), preset=preset, hierarchical_levels=LEVELS, recon=False, psnr=False)
    lesson = LiveLesson(clip.name, clip.width * clip.height, looks, [], [], [], [])
    scene, base = SceneWatch(), rng.uniform(18, 58)
    wild = rng.choice((0.25, 1.0))  # controllers are calm; what they do after surprises is not
    with EncoderSession(settings) as session:
        for number, (frame, look) in enumerate(zip(clip, looks, strict=True)):
            jump = rng.uniform(-_JUMP, _JUMP) if rng.random() < wild * _JUMP_SHARE else 0.0
            base += wild * rng.normal(0, _DRIFT) + jump
            base = min(max(base, 10), 63)
            layer, afresh = layer_of(number), scene.afresh(look)
            own = -rng.uniform(-2, 16) if afresh else _OFFSETS[layer] + wild * rng.normal(0, _JITTER)
            qp = int(min(max(round(base + own), 1), 63))
            session.send(frame, qp=qp)
            (packet,) = session.receive()
            scene.coded(layer)
            for values, value in zip(
                (lesson.layers, lesson.afresh, lesson.qps, lesson.bits),
                (layer, afresh, qp, 8 * packet.size),
                strict=True,
            ):
                values.append(value)  # type: ignore[attr-defined]
    return lesson
