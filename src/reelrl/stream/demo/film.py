"""The viewers' pictures side by side on one clock: what each saw at that moment, and where it stood still."""

from __future__ import annotations

import io
from bisect import bisect_right
from typing import TYPE_CHECKING

import av
import numpy as np

from reelrl.content.pictures import caption
from reelrl.content.write.film import write_film
from reelrl.storage.regular_files import RESULT_BYTES, read_regular
from reelrl.stream.data.packaging import segment_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from reelrl.content.pictures import Colour, Picture
    from reelrl.stream.data.ladders import Ladder
    from reelrl.stream.demo.measure import Watching

CAPTION, STRIP = 26, 56
"""Heights above each picture: words, and bitrates over time."""
MARGIN = 6
GROUND, SOFT, INK = (18, 20, 24), (45, 50, 59), (233, 231, 226)
RATE, STALL = (109, 181, 255), (255, 106, 77)
DIMMED = 0.35


def write_side_by_side(path: Path, site: Path, ladder: Ladder, watchings: Sequence[Watching]) -> Picture:
    """Write the film; returns a picture of it that tells what it is about."""
    sequences = [seen_pictures(site, each.rungs) for each in watchings]
    fps = len(sequences[0]) / (len(watchings[0].rungs) * watchings[0].segment_s)
    shown: list[Picture] = []

    def pictures() -> Iterator[Picture]:
        for number, picture in enumerate(_moments(ladder, watchings, sequences, fps)):
            if number == int(_telling_s(watchings) * fps):
                shown.append(picture)
            yield picture

    write_film(path, pictures(), fps)
    return shown[0]


def _telling_s(watchings: Sequence[Watching]) -> float:
    """The middle of the longest stall, where one stands still and others may go on; without any, half of the film."""
    stalls = [stall for each in watchings for stall in each.stalls] or [(0.0, max(each.ended_s for each in watchings))]
    since_s, until_s = max(stalls, key=lambda stall: stall[1] - stall[0])
    return (since_s + until_s) / 2


def seen_pictures(site: Path, rungs: Sequence[int]) -> list[Picture]:
    """Every picture of the segments that were chosen, in order."""
    head = read_regular(site / f"init-stream{rungs[0]}.mp4")
    body = b"".join(read_regular(site / segment_name(rung, k), limit=RESULT_BYTES) for k, rung in enumerate(rungs))
    with av.open(io.BytesIO(head + body), "r") as file:
        return [frame.to_ndarray(format="rgb24").astype(np.uint8, copy=False) for frame in file.decode(video=0)]


def _moments(
    ladder: Ladder, watchings: Sequence[Watching], sequences: Sequence[Sequence[Picture]], fps: float
) -> Iterator[Picture]:
    ended_s = max(each.ended_s for each in watchings)
    width = sequences[0][0].shape[1]
    strips = [_Strip(ladder, each, width, ended_s) for each in watchings]
    gap = np.full((CAPTION + STRIP + sequences[0][0].shape[0], MARGIN, 3), GROUND, np.uint8)
    for number in range(int(np.ceil(ended_s * fps))):
        now_s = number / fps
        panes = [
            _pane(each, strip.until(now_s), pictures, now_s, fps)
            for each, pictures, strip in zip(watchings, sequences, strips, strict=True)
        ]
        yield np.hstack([part for pane in panes for part in (pane, gap)][:-1])


def _pane(watching: Watching, strip: Picture, pictures: Sequence[Picture], now_s: float, fps: float) -> Picture:
    """What one viewer sees: the picture of the moment; the last one, dimmed, in a stall; black before the first."""
    segment = bisect_right(watching.shown_s, now_s) - 1
    per_segment = len(pictures) // len(watching.rungs)
    name, width = watching.playback.controller, strip.shape[1]
    if segment < 0:
        return np.vstack([_words(width, name, "starting", STALL), strip, np.zeros_like(pictures[0])])
    within = int((now_s - watching.shown_s[segment]) * fps)
    picture = pictures[segment * per_segment + min(within, per_segment - 1)]
    words, colour = f"{watching.playback.timeline['bitrate_kbps'][segment]:.0f} kbit/s", RATE
    if now_s >= watching.ended_s:
        words, colour = "the end", INK
    elif within >= per_segment and segment + 1 < len(watching.rungs):
        words, colour = "stalled", STALL
        picture = (picture * DIMMED).astype(np.uint8)
    return np.vstack([_words(width, name, words, colour), strip, picture])


def _words(width: int, name: str, words: str, colour: Colour) -> Picture:
    return caption((CAPTION, width), name, words, ground=GROUND, left=INK, right=colour)


class _Strip:
    """Rungs and stalls of one viewer from the beginning to now."""

    def __init__(self, ladder: Ladder, watching: Watching, width: int, ended_s: float) -> None:
        self._width, self._ended_s = width, ended_s
        self._whole = np.full((STRIP, width, 3), GROUND, np.uint8)
        top_kbps = float(ladder.bitrates_kbps[-1])
        for rung, shown_s in zip(watching.rungs, watching.shown_s, strict=True):
            high = round((STRIP - 8) * float(ladder.bitrates_kbps[rung]) / top_kbps)
            self._whole[STRIP - high :, self._x(shown_s) : self._x(shown_s + watching.segment_s)] = RATE
        for since_s, until_s in watching.stalls:
            self._whole[4:, self._x(since_s) : max(self._x(until_s), self._x(since_s) + 1)] = STALL
        self._faint = (0.25 * self._whole + 0.75 * np.array(GROUND)).astype(np.uint8)

    def _x(self, at_s: float) -> int:
        return min(round(self._width * at_s / self._ended_s), self._width)

    def until(self, now_s: float) -> Picture:
        """What lies ahead is faint."""
        x = self._x(now_s)
        drawn: Picture = np.concatenate([self._whole[:, :x], self._faint[:, x:]], axis=1)
        drawn[:, min(x, self._width - 1)] = INK
        return drawn
