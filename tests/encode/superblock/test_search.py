from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reelrl.encode import EncoderSettings
from reelrl.encode.superblock import measure
from reelrl.encode.superblock.measure import LocalCurve, static
from reelrl.encode.superblock.search import SearchResult, SearchSettings, _lowest, search, transfer
from reelrl.errors import ConfigError
from tests.encode.makers import SUPERBLOCKS, scene

METRICS = ("psnr_y", "weighted:centre")
QUICK = SearchSettings(encoder=EncoderSettings(backend="aom", qp=40), refinements=4)


@cache
def results() -> tuple[SearchResult, ...]:
    return tuple(search(scene(frames=3), QUICK, METRICS))


@pytest.mark.slow
def test_the_map_found_saves_what_it_says() -> None:
    clip = scene(frames=3)
    curves = LocalCurve.around(clip, QUICK.encoder, METRICS)
    for best in results():
        curve = curves[best.metric]
        rest = curve.percent(measure.measure(clip, QUICK.encoder, metrics=METRICS))
        mapped = curve.percent(measure.measure(clip, QUICK.encoder, static(best.offsets, 3), metrics=METRICS))
        assert best.percent == pytest.approx(mapped - rest, abs=1e-9)


@pytest.mark.slow
def test_a_search_never_ends_worse_than_it_began() -> None:
    for best in results():
        assert best.percent <= best.combined <= best.simple <= 0
        assert np.abs(best.offsets).max() <= 3
        assert best.offsets.shape == (SUPERBLOCKS,)


def test_the_cost_is_told_and_probes_are_shared() -> None:
    probes, simple, strengths = 2 * SUPERBLOCKS, 24, 5
    for best in results():
        assert best.encodes <= probes + simple + 1 + strengths + QUICK.refinements
        assert best.encodes > probes + simple + strengths
        assert best.seconds > 0


def test_a_search_that_was_killed_goes_on_where_it_stood(monkeypatch: pytest.MonkeyPatch) -> None:
    first = results()
    monkeypatch.setattr(measure, "encode_clip", lambda *_: pytest.fail("encoded again"))
    again = search(scene(frames=3), QUICK, METRICS)
    assert [best.percent for best in again] == [best.percent for best in first]


def test_a_map_is_tried_on_other_frames() -> None:
    saved = transfer(scene(frames=6).window(3, 3), QUICK, results()[0])
    assert -50 < saved < 50


@given(at=st.floats(-2.9, 2.9), bend=st.floats(0.1, 5))
def test_the_lowest_point_of_a_parabola_is_found(at: float, bend: float) -> None:
    down, up = (bend * ((x - at) ** 2 - at**2) for x in (-2, 2))
    assert _lowest(np.array([[down, up]]), 2)[0] == pytest.approx(at, abs=1e-6)


@pytest.mark.parametrize(("sides", "best"), [((-1.0, -3.0), 2), ((-3.0, -1.0), -2), ((0.0, 0.0), 0)])
def test_a_superblock_that_bends_the_wrong_way_takes_its_better_side(sides: tuple[float, float], best: int) -> None:
    assert _lowest(np.array([sides]), 2)[0] == best


def test_impossible_searches_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"the search is for encoders where a map is exact.*use aom"):
        search(scene(frames=2), SearchSettings(encoder=EncoderSettings(backend="svtav1")))
    with pytest.raises(ConfigError, match="step = 4"):
        SearchSettings(step=4)
    with pytest.raises(ConfigError, match="refinements = -1"):
        SearchSettings(refinements=-1)
