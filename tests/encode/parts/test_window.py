"""The order in which parts are coded: every part once, the longest first, and work for many at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis.strategies import integers, lists

from reelrl.encode.parts.cuts import VideoPart
from reelrl.encode.parts.window import coding_order, is_held, planned


@given(lists(integers(24, 600), min_size=1, max_size=100))
def test_every_part_comes_once_and_none_before_a_longer_one(frames: list[int]) -> None:
    parts = [VideoPart(number, sum(frames[:number]), count) for number, count in enumerate(frames)]
    order = coding_order(parts)
    assert sorted(order) == parts
    assert [part.frames for part in order] == sorted(frames, reverse=True)


def test_parts_of_one_length_are_spread_over_the_video() -> None:
    order = coding_order([VideoPart(number, 30 * number, 30) for number in range(120)])
    for quarter in range(0, 120, 30):
        places = [part.number // 30 for part in order[quarter : quarter + 30]]
        assert all(5 <= places.count(region) <= 10 for region in range(4))


@given(integers(1, 2000))
def test_the_window_slides_to_the_end_and_always_has_work_for_four(count: int) -> None:
    ends = [planned(finished, count) for finished in range(count + 1)]
    assert ends == sorted(ends)
    assert ends[-1] == count
    assert all(end - finished >= min(4, count - finished) for finished, end in enumerate(ends))
    held = [is_held(place, count) for place in range(count)]
    assert held == sorted(held)
    assert held[-1]


def test_few_parts_are_planned_at_once_and_of_many_a_third() -> None:
    assert [planned(0, count) for count in (1, 5, 6, 12, 24, 360)] == [1, 5, 4, 4, 8, 120]
    assert [planned(finished, 24) for finished in (1, 2, 12, 20)] == [8, 9, 16, 24]
