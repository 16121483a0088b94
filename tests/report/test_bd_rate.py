from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from reelrl.errors import ConfigError
from reelrl.report.bd_rate import Point, bd_rate

# A curve of libaom on a CIF clip, in kbit/s and dB.
CURVE = [Point(90.0, 30.1), Point(160.0, 32.4), Point(300.0, 34.9), Point(610.0, 37.8)]


def scaled(points: list[Point], factor: float, shift: float = 0.0) -> list[Point]:
    return [Point(p.kbps * factor, p.quality + shift) for p in points]


@st.composite
def curves(draw: st.DrawFn) -> list[Point]:
    """Rates and qualities that rise, by steps of very different size."""
    count = draw(st.integers(2, 8))
    steps = st.lists(st.floats(0.01, 3), min_size=count, max_size=count)
    rates, qualities = (
        itertools.accumulate(draw(steps)),
        itertools.accumulate(draw(steps), initial=draw(st.floats(30, 33))),
    )
    return [Point(math.exp(rate), quality) for rate, quality in zip(rates, qualities, strict=False)]


@given(anchor=curves(), test=curves(), method=st.sampled_from(["pchip", "akima"]))
def test_it_is_what_the_fields_own_package_says(anchor: list[Point], test: list[Point], method: str) -> None:
    import bjontegaard  # type: ignore[import-untyped]

    ours = bd_rate(anchor, test, method).percent  # type: ignore[arg-type]
    assume(ours is not None)
    (rates, qualities), (rates_too, qualities_too) = (np.array(points).T for points in (anchor, test))
    options = {"require_matching_points": False, "min_overlap": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has doubts of its own about short overlaps
        theirs = bjontegaard.bd_rate(rates, qualities, rates_too, qualities_too, method, **options)
    assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-6)


@given(factor=st.floats(0.2, 5), method=st.sampled_from(["pchip", "akima"]))
def test_a_curve_with_all_rates_scaled_differs_by_that_factor(factor: float, method: str) -> None:
    found = bd_rate(CURVE, scaled(CURVE, factor), method)  # type: ignore[arg-type]
    assert found.percent == pytest.approx(100 * (factor - 1), abs=1e-6)
    assert (found.overlap, found.doubts) == (1, ())


@given(shift=st.floats(-1, 1), factor=st.floats(0.8, 1.25))
def test_there_and_back_cancel(shift: float, factor: float) -> None:
    other = scaled(CURVE, factor, shift)
    there, back = bd_rate(CURVE, other).percent, bd_rate(other, CURVE).percent
    assert there is not None
    assert back is not None
    assert (1 + there / 100) * (1 + back / 100) == pytest.approx(1, abs=1e-9)


def test_an_example_stays_what_it_was() -> None:
    """The points of the package's own example."""
    anchor = [Point(9487.76, 40.037), Point(4593.60, 38.615), Point(2486.44, 36.845), Point(1358.24, 34.851)]
    test = [Point(9787.80, 40.121), Point(4469.00, 38.651), Point(2451.52, 36.970), Point(1356.24, 34.987)]
    assert bd_rate(anchor, test).percent == pytest.approx(-4.4175, abs=1e-4)
    assert bd_rate(anchor, list(reversed(test))) == bd_rate(anchor, test)


def test_a_curve_that_falls_gives_no_figure_but_the_reason() -> None:
    folded = [*CURVE[:2], Point(300.0, 32.0), CURVE[3]]
    found = bd_rate(CURVE, folded)
    assert found.percent is None
    assert found.doubts == ("test curve: quality 32.4 at 160 kbit/s, 32 at 300",)


def test_curves_apart_give_no_figure_but_the_reason() -> None:
    found = bd_rate(CURVE, scaled(CURVE, 1, 20))
    assert (found.percent, found.overlap, found.doubts) == (None, 0, ("the curves share no quality",))


def test_a_small_overlap_and_few_points_are_doubts() -> None:
    found = bd_rate(CURVE, scaled(CURVE[:3], 1, 5))
    assert found.percent is not None
    assert [doubt.split(" ")[0] for doubt in found.doubts] == ["test", "the"]
    assert 0 < found.overlap < 0.75


@pytest.mark.parametrize("points", [[], [Point(100, 30)]])
def test_too_few_points_for_a_curve_say_so(points: list[Point]) -> None:
    found = bd_rate(CURVE, points)
    assert found.percent is None
    assert "takes two at least" in found.doubts[0]


@pytest.mark.parametrize("bad", [Point(0, 30), Point(math.nan, 30), Point(100, math.inf), Point(-1, 30)])
def test_impossible_points_are_refused(bad: Point) -> None:
    with pytest.raises(ConfigError, match="kbit/s"):
        bd_rate(CURVE, [*CURVE, bad])


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(ConfigError, match="use pchip or akima"):
        bd_rate(CURVE, CURVE, "cubic")  # type: ignore[arg-type]
