"""Parts in rounds: every part once, spread over the video; many parts in shrinking rounds, few at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis.strategies import integers

from reelrl.encode.parts.cuts import VideoPart
from reelrl.encode.parts.rounds import rounds


def parts(count: int) -> list[VideoPart]:
    return [VideoPart(number, 30 * number, 30) for number in range(count)]


@given(integers(1, 300))
def test_every_part_is_in_one_round_and_the_last_is_held_to_its_bits(count: int) -> None:
    found = rounds(parts(count))
    assert all(chosen for chosen, *_ in found)
    assert sorted(part.number for chosen, *_ in found for part in chosen) == list(range(count))
    assert found[-1].chase


def test_of_many_parts_the_first_round_is_small_and_spread_over_the_video() -> None:
    first, second, third, last = rounds(parts(120))
    assert [len(one.parts) for one in (first, second, third, last)] == [20, 60, 30, 10]
    assert first.parts[0].number < 12
    assert first.parts[-1].number >= 108
    assert not first.chase


def test_few_parts_are_coded_at_once() -> None:
    assert [len(rounds(parts(count))) for count in (1, 5, 6, 23, 24)] == [1, 1, 2, 2, 4]
