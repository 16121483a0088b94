from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reelrl.content.clip import Clip
from reelrl.content.read.timing import Timing
from tests.content.makers import NTSC
from tests.content.whole_files import Whole

if TYPE_CHECKING:
    from pathlib import Path

MILLISECOND = Fraction(1, 1000)


@given(starts=st.lists(st.integers(-1000, 10_000), min_size=1, max_size=30), last=st.integers(0, 500))
def test_times_increase_whatever_packets_say(starts: list[int], last: int) -> None:
    timing = Timing.from_packets(MILLISECOND, starts, last)
    assert len(timing.starts) == len(starts)
    assert all(timing.duration(number) > 0 for number in range(len(starts)))
    assert sum(timing.duration(number) for number in range(len(starts))) == timing.ticks
    if len(set(starts)) == len(starts):
        assert list(timing.starts) == sorted(starts)


@given(frames=st.integers(2, 300), fps=st.sampled_from([Fraction(25), NTSC, Fraction(24000, 1001), Fraction(50)]))
def test_times_rounded_to_milliseconds_are_still_constant(frames: int, fps: Fraction) -> None:
    timing = Timing.from_packets(MILLISECOND, [round(n * 1000 / fps) for n in range(frames)], round(1000 / fps))
    assert timing.is_constant(fps)
    assert timing.rate(fps) == fps


def test_the_first_pictures_end_where_the_next_one_begins() -> None:
    timing = Timing(MILLISECOND, [0, 40, 200, 240], 40)
    assert timing.first(2) == Timing(MILLISECOND, [0, 40], 160)
    assert timing.first(9) is timing


@pytest.mark.parametrize("suffix", [".mkv", ".mp4"])
def test_a_clip_of_variable_rate_lasts_as_long_as_its_file(tmp_path: Path, suffix: str) -> None:
    slow_then_fast = [2048 * n for n in range(6)] + [6 * 2048 + 256 * n for n in range(18)]  # 6.25, then 50 frames/s
    path = Whole(starts=slow_then_fast, attachment=False, cover=False, subtitles=None).write(tmp_path / f"a{suffix}")
    clip = Clip.open(path)
    assert clip.frame_count == 24
    assert clip.duration_s == pytest.approx(0.96 + 18 * 0.02, rel=0.03)  # the last one's duration is a guess
