"""Forest plots, and the sentence above them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reelrl.report.charts import steps
from reelrl.report.forest import Row, forest
from reelrl.report.headline import compared
from reelrl.report.intervals import Interval
from tests.report.test_page import checked

values = st.floats(-1e4, 1e4).map(lambda value: round(value, 4))
intervals = st.tuples(values, values, values).map(sorted).map(lambda three: Interval(three[1], three[0], three[2]))


@settings(deadline=None)
@given(st.lists(st.tuples(intervals, st.lists(values, max_size=3)), min_size=1, max_size=4))
def test_every_mark_of_a_forest_lies_inside_it(found: list[tuple[Interval, list[float]]]) -> None:
    rows = [Row(f"row {i}", each, "x", [("dot", dot) for dot in dots]) for i, (each, dots) in enumerate(found)]
    made = checked(forest(rows, title="t", lower_is_better=True))
    circles = [float(attributes["cx"] or -1) for name, attributes in made if name == "circle"]
    assert len(circles) == len(rows) + sum(len(row.dots) for row in rows)
    assert all(0 <= place <= 480 for place in circles)


@pytest.mark.parametrize(
    ("interval", "lower_is_better", "colour"),
    [((-2, -3, -1), True, "one"), ((-2, -3, -1), False, "two"), ((2, 1, 3), True, "two"), ((1, -1, 3), True, "quiet")],
)
def test_a_row_is_coloured_by_its_side_of_zero(
    interval: tuple[float, float, float], lower_is_better: bool, colour: str
) -> None:
    made = forest([Row("a", Interval(*interval), "x")], title="t", lower_is_better=lower_is_better)
    assert f'r="6" style="fill: var(--{colour})"' in made


def test_an_interval_that_holds_zero_is_no_victory() -> None:
    assert compared("a", "b", Interval(0.5, -0.1, 1.0), "dB")[0] == "a and b: no difference shown"
    assert compared("a", "b", Interval(0.5, 0.1, 1.0), "dB")[0] == "a beats b by 0.500 dB"
    headline, sure = compared("a", "b", Interval(-0.5, -1.0, -0.1), "dB", digits=1)
    assert headline == "b beats a by 0.5 dB"
    assert sure == "Paired difference \N{MINUS SIGN}0.5 dB, 95 % interval \N{MINUS SIGN}1.0 to \N{MINUS SIGN}0.1."


def test_steps_hold_a_value_until_the_next() -> None:
    assert steps([(0, 1), (2, 5), (3, 4)]) == [(0, 1), (2, 1), (2, 5), (3, 5), (3, 4)]
    assert steps([(0, 1)]) == [(0, 1)]
    assert steps([]) == []
