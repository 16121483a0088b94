"""When frames arrive over a link, and what is on the screen when they are due."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from reelrl.content.frame import Frame
from reelrl.encode.live.link import LiveViewer, Uplink
from reelrl.encode.minigop.evaluate import buffer_use
from reelrl.errors import ConfigError

SIZES = some.lists(some.integers(1, 4000), min_size=1, max_size=40)


def grey(level: int) -> Frame:
    return Frame(np.full(16 * 16 * 3 // 2, level, np.uint8), 16, 16)


@given(sizes=SIZES, buffer_s=some.floats(0.1, 2))
def test_on_a_constant_link_a_delay_is_what_a_leaky_bucket_holds(sizes: list[int], buffer_s: float) -> None:
    viewer = LiveViewer(Uplink.constant(100), 25.0, buffer_s)
    for size in sizes:
        viewer.is_sent(8 * size, grey(0))
    late, peak_s = buffer_use(sizes, Fraction(25), 100, buffer_s)
    assert max(delay for delay in viewer.delays_s if delay is not None) == pytest.approx(peak_s)
    assert abs(viewer.late - late) <= sum(abs((delay or 0) - buffer_s) < 1e-9 for delay in viewer.delays_s)


@given(
    kbps=some.lists(some.floats(0, 500), min_size=1, max_size=6).filter(lambda rates: max(rates) > 1),
    start_s=some.floats(0, 20),
    bits=some.tuples(some.floats(1, 1e6), some.floats(1, 1e6)),
)
def test_bits_go_one_after_the_other(kbps: list[float], start_s: float, bits: tuple[float, float]) -> None:
    link = Uplink(tuple(0.5 * k for k in range(len(kbps) + 1)), tuple(kbps))
    first, second = bits
    assert link.sent_s(link.sent_s(start_s, first), second) == pytest.approx(link.sent_s(start_s, first + second))
    assert link.sent_s(start_s, first) >= start_s + first / (1000 * max(kbps)) - 1e-9


def test_late_and_dropped_frames_leave_what_came_before_on_the_screen() -> None:
    viewer = LiveViewer(Uplink.constant(8), 10.0, 0.25)  # a thousand bytes a second
    frames = [grey(level) for level in (10, 20, 30, 40)]
    for frame, size in zip(frames, (100, 400, None, 10), strict=True):
        viewer.is_sent(None if size is None else 8 * size, frame, None if size is None else frame)
    # The second is through 0.5 s after the start, when the third is long due and the fourth just as well.
    assert viewer.delays_s == [pytest.approx(0.1), pytest.approx(0.4), None, pytest.approx(0.21)]
    assert viewer.late == 1
    assert viewer.sse_y == [0, 100 * 256, 400 * 256, 0]


def test_links_that_carry_nothing_are_refused() -> None:
    for edges, kbps in (((0.0, 1.0), (0.0,)), ((0.0,), (5.0,)), ((1.0, 2.0), (5.0,)), ((0.0, 1.0), (-5.0,))):
        with pytest.raises(ConfigError, match="link"):
            Uplink(edges, kbps)
