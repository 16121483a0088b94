from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from reelrl.encode.features import clip_features
from reelrl.encode.superblock.env import SuperblockQpEnv
from reelrl.encode.superblock.fit import FitSettings, FittedMap, MapPolicy, cases, evolve, fit
from reelrl.encode.superblock.maps import feature_map, named_weights
from reelrl.errors import ConfigError, ContentError
from tests.encode.makers import scene

if TYPE_CHECKING:
    from numpy.typing import NDArray

POLICY = MapPolicy(
    {"variance": 0.25, "importance": -1.0},
    inter_share=0.5,
    least_change=1.5,
    importance="centre",
    facts={"objective": "weighted:centre", "clips": ["a", "b"]},
)
QUICK = FitSettings(objective="weighted:centre", frames=3, qps=(36, 44), population=4, generations=1)


@cache
def fitted() -> MapPolicy:
    return fit([scene(frames=9), scene("talk", frames=9)], QUICK)


def test_a_policy_is_saved_and_loaded(tmp_path: Path) -> None:
    POLICY.save(tmp_path / "policy.yaml")
    assert MapPolicy.load(tmp_path / "policy.yaml") == POLICY
    assert (tmp_path / "policy.yaml").stat().st_size < 1000


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (
            "format: reelrl-superblock-map-1\nweights: !!python/object/apply:os.system ['touch /tmp/never']\n",
            "not valid YAML",
        ),
        ("weights: {variance: 1}\n", "does not say 'format"),
        ("[1, 2]\n", "does not say 'format"),
        ("{", "not valid YAML"),
        ("format: reelrl-superblock-map-1\n", "no weights"),
        ("format: reelrl-superblock-map-1\nweights: {}\nstrength: 3\n", "unknown 'strength'"),
    ],
)
def test_files_that_are_no_policy_are_refused(tmp_path: Path, text: str, match: str) -> None:
    (tmp_path / "policy.yaml").write_text(text)
    with pytest.raises(ContentError, match=match):
        MapPolicy.load(tmp_path / "policy.yaml")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ContentError, match=r"cannot read .*gone.yaml"):
        MapPolicy.load(tmp_path / "gone.yaml")


@pytest.mark.parametrize(
    "wrong",
    [
        {"weights": {"varience": 1.0}},
        {"weights": {"variance": float("nan")}},
        {"weights": {"variance": "much"}},
        {"weights": {"variance": 3.0}},
        {"weights": {"variance": 9.0}, "reach": 12},
        {"weights": {}, "reach": 0},
        {"weights": {}, "least_change": -1.0},
        {"weights": {}, "inter_share": float("inf")},
    ],
)
def test_impossible_policies_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        MapPolicy(**wrong)  # type: ignore[arg-type]


def test_maps_are_those_of_the_features() -> None:
    clip = scene(frames=4)
    features = clip_features(clip)
    maps = MapPolicy({"variance": 0.8}, inter_share=0.5).maps_of_clip(clip, 40)
    for number, offsets in enumerate(maps):
        weights = named_weights(variance=0.8 if number == 0 else 0.4)
        np.testing.assert_array_equal(offsets, feature_map(features[number], weights, clip.grid))


def test_frames_in_which_little_changes_get_no_map() -> None:
    clip = scene(frames=4)
    maps = MapPolicy({"variance": 0.8}, least_change=1000.0).maps_of_clip(clip, 40)
    assert maps[0] is not None
    assert maps[1:] == [None] * 3


def test_the_gate_rises_with_the_quantiser() -> None:
    clip = scene(frames=4)
    change = float(clip_features(clip)[1:, 7].mean(1).min())
    policy = MapPolicy({"variance": 0.8}, least_change=change * 0.9)
    assert all(offsets is not None for offsets in policy.maps_of_clip(clip, 40))
    assert any(offsets is None for offsets in policy.maps_of_clip(clip, 60))


def test_a_policy_that_abstains_sends_nothing() -> None:
    assert MapPolicy({"variance": 1.0}, abstains=True).maps_of_clip(scene(frames=3), 40) == [None] * 3


@pytest.mark.parametrize("size", [(64, 64), (200, 130), (352, 288)])
def test_a_policy_carries_over_to_any_resolution(size: tuple[int, int]) -> None:
    clip = scene(frames=2, size=size)
    for offsets in POLICY.maps_of_clip(clip, 30):
        if offsets is not None:
            assert offsets.shape == (clip.superblock_count,)
            assert np.abs(offsets).max() <= 3


def test_as_a_controller_it_sends_its_maps_in_the_environment() -> None:
    clip, policy = scene(frames=4), MapPolicy({"variance": 0.8, "centre": -0.5}, least_change=0.5)
    env = SuperblockQpEnv(clip)
    controller = FittedMap(policy)
    observation, _ = env.reset(seed=0)
    controller.reset(0, env)
    for expected in policy.maps_of_clip(clip, env.settings.qp):
        observation, _, _, _, info = env.step(controller.act(observation))
        assert info["map_sent"] == (expected is not None)
        np.testing.assert_array_equal(info["offsets"], np.zeros(4, int) if expected is None else expected)
    env.close()


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


def test_evolution_finds_the_lowest_point() -> None:
    target, best = np.linspace(-1, 1, 6), [np.inf]

    def cost(vector: NDArray[np.float64]) -> float:
        value = float((np.arange(1, 7) * (vector - target) ** 2).sum())
        best[0] = min(best[0], value)
        return value

    evolve(cost, np.zeros(6), 0.3, 8, 100, seed=0)
    assert best[0] < 1e-4


def test_impossible_fits_are_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'psnr_y'"):
        FitSettings(objective="psnr")
    with pytest.raises(ConfigError, match="at least 1, 1, 4, 0 and 1"):
        FitSettings(population=1)
    with pytest.raises(ConfigError, match="spread = 0"):
        FitSettings(spread=0)
    with pytest.raises(ConfigError, match="no clips"):
        fit([], QUICK)


@pytest.mark.parametrize("name", ["centre", "moving", "psnr", "ssim"])
def test_published_policies_load_and_say_what_they_are_for(name: str) -> None:
    policy = MapPolicy.load(Path(__file__).parents[3] / "docs" / "results" / "superblock" / f"{name}.yaml")
    assert name in policy.facts["objective"]
    assert policy.abstains == (name == "psnr")
