"""Fits of map policies: what they say of themselves, and what they refuse."""

from __future__ import annotations

from functools import cache

import pytest

from reelrl.encode.superblock.fit import FitSettings, cases, fit
from reelrl.encode.superblock.map_policy import MapPolicy
from reelrl.errors import ConfigError
from tests.encode.makers import scene

QUICK = FitSettings(objective="weighted:centre", frames=3, qps=(36, 44), population=4, generations=1)


@cache
def fitted() -> MapPolicy:
    return fit([scene(frames=9), scene("talk", frames=9)], QUICK)


@pytest.mark.slow
def test_a_fit_tells_how_it_came_about() -> None:
    policy = fitted()
    facts = policy.facts
    assert policy.importance == "centre"
    assert "constant" not in policy.weights
    assert facts["fitted_percent"] <= 0
    assert facts["policies_tried"] == 2 * len(QUICK.names) + 4
    assert len(facts["check_by_clip"]) == 2


@pytest.mark.slow
def test_a_fit_is_the_same_each_time() -> None:
    assert fit([scene(frames=9), scene("talk", frames=9)], QUICK) == fitted()


def test_one_clip_proves_nothing_so_its_policy_abstains() -> None:
    settings = FitSettings(objective="psnr_y", frames=2, qps=(40,), population=4, generations=0)
    assert fit([scene(frames=4)], settings).abstains


def test_sending_nothing_saves_exactly_nothing() -> None:
    for case in cases([scene(frames=4)], QUICK, 1 / 3):
        assert case.saving(MapPolicy({})) == 0
        assert case.saving(MapPolicy({"variance": 1.0})) != 0


def test_windows_of_a_clip_are_spread_over_it_and_the_check_looks_at_other_frames() -> None:
    stills = FitSettings(objective="psnr_y", frames=1, windows=2, qps=(40,))
    clip = scene(frames=13)
    names = [[case.clip.name.rpartition("[")[2] for case in cases([clip], stills, place)] for place in (1 / 3, 2 / 3)]
    assert names == [["2:3]", "8:9]"], ["4:5]", "10:11]"]]


def test_nothing_moves_in_still_pictures_so_nothing_of_it_is_fitted() -> None:
    stills = FitSettings(objective="weighted:centre", frames=1, reach=12)
    assert stills.names == ("variance", "gradient", "importance")
    assert stills.size == 3
    assert QUICK.size == len(QUICK.names) + 2


def test_impossible_fits_are_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'psnr_y'"):
        FitSettings(objective="psnr")
    with pytest.raises(ConfigError, match="at least 1, 1, 4, 0 and 1"):
        FitSettings(population=1)
    with pytest.raises(ConfigError, match="spread = 0"):
        FitSettings(spread=0)
    with pytest.raises(ConfigError, match="no clips"):
        fit([], QUICK)
