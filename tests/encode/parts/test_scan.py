"""One reading of a video: scene changes are seen, motion is not taken for one, and pictures are known again."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from reelrl.content.clip import Clip, concatenate
from reelrl.content.frame import Frame
from reelrl.encode.parts import scan as scanning
from reelrl.encode.parts.cuts import VideoPart, cut, scene_changes
from reelrl.encode.parts.scan import scan
from reelrl.parallel import InProcess
from tests.encode.makers import scene

pytestmark = pytest.mark.slow

STYLES = ("street", "pan", "water", "talk", "screen")
SIZE = (352, 288)


def test_cuts_between_scenes_are_found_and_nothing_else() -> None:
    shots = [scene(style, 31, SIZE) for style in (*STYLES, "street", "talk", "pan")]
    clip = concatenate(shots)
    found = scan(clip, InProcess())
    assert scene_changes(found.novelty, clip.fps) == [31 * number for number in range(1, len(shots))]


@pytest.mark.parametrize("style", STYLES)
def test_motion_is_no_scene_change(style: str) -> None:
    assert scan(scene(style, 31, SIZE), InProcess()).novelty.max() < 1.0


@pytest.mark.parametrize("size", [(16, 16), (64, 40), (200, 18), (18, 200)])
def test_small_pictures_can_be_scanned(size: tuple[int, int]) -> None:
    frames = [Frame.empty(*size) for _ in range(4)]
    for number, frame in enumerate(frames):
        frame.data[...] = 60 * number
    found = scan(Clip.from_frames(frames, fps=30), InProcess())
    assert np.isfinite(found.novelty).all()
    assert len(set(found.checks.tolist())) == 4


def test_where_the_reading_is_cut_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clip = concatenate([scene("street", 31, SIZE), scene("talk", 31, SIZE)])
    whole = scan(clip, InProcess())
    monkeypatch.setattr(scanning, "_SHORT", 7)
    monkeypatch.setattr(scanning, "STRETCH", 7)
    pieces = scan(clip, InProcess())
    assert np.array_equal(whole.novelty, pieces.novelty)
    assert np.array_equal(whole.checks, pieces.checks)
    assert len(cut(whole.novelty, clip.fps)) == 2


def test_one_level_of_one_pixel_is_another_picture() -> None:
    frame = scene("street", 1, SIZE).load().frames().__next__()
    versions = [frame]
    for at in (0, 77, frame.data.size - 1):
        other = Frame(frame.data.copy(), frame.width, frame.height)
        other.data.reshape(-1)[at] ^= 1
        versions.append(other)
    found = scan(Clip.from_frames(versions, fps=30), InProcess())
    assert len(set(found.checks.tolist())) == 4
    keys = {found.key(VideoPart(0, first, 1)) for first in range(4)}
    assert len(keys) == 4
    assert all(found.key(VideoPart(0, a, 1)) != found.key(VideoPart(0, b, 1)) for a, b in permutations(range(4), 2))
