"""Where a video is cut: laws for every video, then examples."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from reelrl.encode.parts.cuts import LONGEST_S, SCENE_CHANGE, SHORTEST_S, VideoPart, cut, scene_changes

RATES = st.sampled_from([Fraction(10), Fraction(24), Fraction(30000, 1001), Fraction(60)])
KEYINTS = st.sampled_from([-1, 1, 48, 161, 5000])


@given(st.integers(1, 4000), st.lists(st.integers(0, 4000), max_size=60), RATES, KEYINTS)
def test_parts_cover_the_video_once_and_none_is_too_long_or_short(
    frames: int, changes: list[int], fps: Fraction, keyint: int
) -> None:
    novelty = np.zeros(frames, np.float32)
    novelty[[change for change in changes if change < frames]] = 2
    parts = cut(novelty, fps, keyint)
    assert [part.number for part in parts] == list(range(len(parts)))
    assert (parts[0].first, parts[-1].end) == (0, frames)
    assert all(before.end == after.first for before, after in pairwise(parts))
    assert all(min(SHORTEST_S * fps, frames) <= part.frames <= LONGEST_S * fps for part in parts)
    starts = [0, *scene_changes(novelty, fps), frames]
    assert all(end - first >= min(SHORTEST_S * fps, frames) for first, end in pairwise(starts))
    assert all(novelty[start] >= SCENE_CHANGE for start in starts[1:-1])


def test_a_long_scene_is_cut_where_a_key_frame_is_due_anyway() -> None:
    parts = cut(np.zeros(1800), Fraction(30), keyint=161)
    assert [part.first for part in parts] == [0, 483, 966, 1449]
    assert {part.first % 161 for part in parts} == {0}


def test_without_key_frames_a_long_scene_is_cut_into_equal_parts() -> None:
    assert cut(np.zeros(1300), Fraction(30)) == (VideoPart(0, 0, 433), VideoPart(1, 433, 434), VideoPart(2, 867, 433))


def test_changes_close_to_each_other_stay_in_one_part() -> None:
    novelty = np.zeros(300)
    novelty[[3, 100, 110, 120, 140, 295]] = 2
    assert scene_changes(novelty, Fraction(30)) == [100, 140]
