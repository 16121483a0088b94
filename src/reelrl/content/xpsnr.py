"""XPSNR of frames, by the filter of that name in PyAV's libraries."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from reelrl.content.quality import PSNR_CAP_DB
from reelrl.errors import ConfigError, ContentError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from av.video.frame import VideoFrame

    from reelrl.content.frame import Frame

_TICK = Fraction(1, 30)
_FORMATS = {8: "yuv420p", 10: "yuv420p10le"}
# The planes as the published figure weighs them.
_WEIGHTS = {"y": 4, "u": 1, "v": 1}


def xpsnr(reference: Iterable[Frame], distorted: Iterable[Frame]) -> list[float]:
    """XPSNR of each frame in dB, (4 Y + Cb + Cr) / 6; at most 100. The filter knows the frames before, so send all.

    Both must have as many frames, all of one size and depth.
    """
    from av.filter import Graph
    from av.video.format import VideoFormat

    graph: Graph | None = None
    scores: list[float] = []
    for number, (wanted, coded) in enumerate(zip(reference, distorted, strict=True)):
        if graph is None:
            graph = Graph()
            ends = [
                graph.add_buffer(
                    width=each.width, height=each.height, format=VideoFormat(_FORMATS[each.depth]), time_base=_TICK
                )
                for each in (coded, wanted)
            ]
            try:
                score = graph.add("xpsnr")
            except ValueError as error:
                raise ContentError("this PyAV has no xpsnr filter; install one that has: pip install -U av") from error
            for place, end in enumerate(ends):
                end.link_to(score, 0, place)
            sink = graph.add("buffersink")
            score.link_to(sink)
            graph.configure()
        for end, each in zip(ends, (coded, wanted), strict=True):
            end.push(_as_av(each, number))
        facts = sink.pull().metadata
        total = sum(weight * _finite(facts[f"lavfi.xpsnr.xpsnr.{plane}"]) for plane, weight in _WEIGHTS.items())
        scores.append(total / sum(_WEIGHTS.values()))
    if not scores:
        raise ConfigError("no frames to compare; pass at least one")
    return scores


def _as_av(frame: Frame, number: int) -> VideoFrame:
    from av.video.frame import VideoFrame

    rows = np.asarray(frame.data).reshape(frame.height * 3 // 2, frame.width)
    made = VideoFrame.from_ndarray(rows, format=_FORMATS[frame.depth])
    made.pts, made.time_base = number, _TICK
    return made


def _finite(text: str) -> float:
    return min(float(text), PSNR_CAP_DB)
