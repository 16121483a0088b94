"""Laws of the spline through which beliefs pass."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis.strategies import floats

from reelrl.encode.target.lessons import KNOTS
from reelrl.encode.target.spline import spline_weights


@given(at=floats(0, 70), slope=floats(-3, 3), height=floats(-50, 50))
def test_a_straight_line_comes_out_as_it_is(at: float, slope: float, height: float) -> None:
    values = height + slope * np.array(KNOTS)
    assert abs(spline_weights(KNOTS, at) @ values - (height + slope * at)) < 1e-6


def test_it_passes_through_its_points_and_goes_on_straight() -> None:
    values = np.array([99.0, 96, 90, 80, 62])
    assert [spline_weights(KNOTS, knot) @ values for knot in KNOTS] == list(values)
    below = [spline_weights(KNOTS, at) @ values for at in (8.0, 10.0, 12.0)]
    assert abs(below[0] - 2 * below[1] + below[2]) < 1e-9
