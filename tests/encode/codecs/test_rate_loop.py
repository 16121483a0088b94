"""The leaky bucket: laws of its steps, and that it holds a bitrate over a real encoder."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reelrl.encode import EncoderSession
from reelrl.encode.codecs.rate_loop import FrameQpBucket
from reelrl.errors import ConfigError
from tests.encode.makers import BACKENDS, scene, settings_for


def bucket(target_kbps: float = 100.0) -> FrameQpBucket:
    return FrameQpBucket(target_kbps, Fraction(30), 176 * 144)


@given(st.lists(st.tuples(st.integers(0, 500_000), st.booleans()), max_size=80), st.floats(1, 1e5))
def test_qps_are_whole_and_in_range_whatever_frames_cost(costs: list[tuple[int, bool]], target_kbps: float) -> None:
    loop = bucket(target_kbps)
    for size_bytes, key in costs:
        qp = loop.next_qp(key=key)
        assert type(qp) is int
        assert loop.lowest_qp <= qp <= loop.highest_qp
        loop.update(size_bytes, qp, key=key)


@given(st.lists(st.integers(0, 20_000), min_size=1, max_size=60))
def test_the_surplus_counts_every_bit_but_forgets_old_savings(sizes: list[int]) -> None:
    loop = bucket()
    surplus = 0.0
    for size_bytes in sizes:
        loop.update(size_bytes, loop.next_qp(key=False), key=False)
        surplus = max(surplus + 8 * max(size_bytes, 1) - loop.frame_bits, -100_000)
        assert loop.surplus_bits == pytest.approx(surplus)


def test_frames_that_cost_too_much_raise_the_qp_and_cheap_ones_lower_it() -> None:
    dear, cheap = bucket(), bucket()
    for _ in range(20):
        for loop, size_bytes in ((dear, 5000), (cheap, 20)):
            loop.update(size_bytes, loop.next_qp(key=False), key=False)
    assert dear.next_qp(key=False) > 55
    assert cheap.next_qp(key=False) < 15


@pytest.mark.parametrize("target_kbps", [0.0, -1.0, float("nan")])
def test_a_target_that_is_none_is_refused(target_kbps: float) -> None:
    with pytest.raises(ConfigError, match="a bitrate is above zero"):
        bucket(target_kbps)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("target_kbps", [60.0, 150.0])
def test_it_holds_a_bitrate_over_a_real_encoder(backend: str, target_kbps: float) -> None:
    clip = scene("street", 90, (176, 144))
    loop = bucket(target_kbps)
    size_bytes = 0
    with EncoderSession(settings_for(clip, backend, picture_qp=True, recon=False)) as session:
        for number, frame in enumerate(clip):
            qp = loop.next_qp(key=number == 0)
            session.send(frame, qp=qp, offsets=[-1, 0, 1] * 3)
            (packet,) = session.receive()
            loop.update(packet.size, qp, key=number == 0)
            size_bytes += packet.size
    assert size_bytes * 8 / 3000 == pytest.approx(target_kbps, rel=0.25)
