"""Settings, scenarios and rewards of a match: what needs no engine."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import vizdoom
from hypothesis import given
from hypothesis.strategies import floats, integers, lists

from reelrl.act import Rewards, VizDoomCoopParallelEnv, VZCoopConfig
from reelrl.act.doom.env import player_rewards, team_reward
from reelrl.act.doom.scenarios import find as scenario
from reelrl.act.doom.scenarios import nine_rooms, wad
from reelrl.act.doom.shared_memory import COLUMN, FACTS
from reelrl.errors import ConfigError, ContentError
from reelrl.settings import config

if TYPE_CHECKING:
    from pathlib import Path


def test_settings_survive_yaml(tmp_path: Path) -> None:
    settings = VZCoopConfig(num_players=4, port=5030, observation_size=(84, 84), rewards=Rewards(kill=2.0))
    config.save(settings, tmp_path / "match.yaml")
    assert config.load(VZCoopConfig, tmp_path / "match.yaml") == settings


def test_text_and_enums_of_vizdoom_mean_the_same() -> None:
    text = VZCoopConfig(screen_resolution="res_640x480", mode="Mode.PLAYER")
    enum = VZCoopConfig(screen_resolution=vizdoom.ScreenResolution.RES_640X480, mode=vizdoom.Mode.PLAYER)  # type: ignore[arg-type]
    assert text == enum
    assert text.screen_size == text.picture_size == (480, 640)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"screen_resolution": "RES_320X241"}, "RES_320X240"),
        ({"mode": "ASYNC_PLAYER"}, "need PLAYER"),
        ({"num_players": 9}, "num_players is 9; give a whole number from 1 to 8"),
        ({"num_players": True}, "num_players is True"),
        ({"num_players": 3, "sides": 2}, "num_players is 3, which two sides cannot share; give an even number"),
        ({"num_players": 1, "sides": 2}, "side B has no player; give 2 players or more"),
        ({"num_players": 3, "sides": 3}, "sides is 3; give a whole number from 1 to 2"),
        ({"skip": 0}, "skip is 0"),
        ({"port": 70000}, "port is 70000"),
        ({"observation_size": (84, 0)}, "observation_size is"),
        ({"deadline_s": float("nan")}, "deadline_s is nan"),
    ],
)
def test_wrong_settings_are_explained(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        VZCoopConfig(**wrong)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"frame_stack": 0}, "frame_stack is 0"),
        ({"max_steps": 0}, "max_steps is 0"),
        ({"aux_observations": ["helth"]}, "did you mean 'health'"),
    ],
)
def test_wrong_arguments_are_explained(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        VizDoomCoopParallelEnv(**wrong)


def test_our_map_has_a_start_for_every_player(tmp_path: Path) -> None:
    scenario.prepare("nine_rooms", tmp_path)
    assert wad.starts(tmp_path / "nine_rooms.wad", "MAP01") == set(wad.PLAYER_STARTS)


@pytest.mark.parametrize(("name", "starts"), [("deadly_corridor", {1}), ("cig", {11}), ("multi_deathmatch", None)])
def test_starts_are_found_in_maps_of_other_formats(name: str, starts: set[int] | None) -> None:
    from pathlib import Path

    found = wad.starts(Path(vizdoom.scenarios_path) / f"{name}.wad", "map01")
    assert found == starts or (starts is None and found)


def test_every_place_of_the_map_is_itself() -> None:
    for index in range(9):
        row, column = divmod(index, 3)
        middle = [step * (nine_rooms.ROOM + nine_rooms.GAP) + nine_rooms.ROOM / 2 for step in (column, row)]
        assert nine_rooms.place_of(*middle) == index
    assert nine_rooms.PLACES[nine_rooms.place_of(-5, 5000)] == "north-west"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("doom_scenario_path = gone.wad\n", "gone.wad.*not beside it"),
        ("Doom_Scenario_Path = cig.wad  # no starts\ndoomMap = map01\n", "no player starts"),
        ("doom_scenario_path = cig.wad\ndoom_map = map31\n", "no map 'map31'"),
    ],
)
def test_scenarios_that_would_crash_the_engine_are_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "mine.cfg"
    path.write_text(text)
    with pytest.raises((ConfigError, ContentError), match=words):
        scenario.prepare(str(path), tmp_path)


@pytest.mark.parametrize(
    ("name", "sides", "words"),
    [
        ("nine_rooms", 2, "map01 of nine_rooms.wad has no deathmatch starts for two sides"),
        ("deadly_corridor", 2, "map01 of deadly_corridor.wad has no deathmatch starts for two sides"),
        ("duel", 1, "duel.wad has no player starts for a co-operative game.*set sides to 2"),
    ],
)
def test_scenarios_are_refused_where_these_sides_could_not_start(
    tmp_path: Path, name: str, sides: int, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        scenario.prepare(name, tmp_path, sides)
    scenario.prepare(name, tmp_path, 3 - sides)


def test_an_unknown_scenario_is_told_with_its_neighbours(tmp_path: Path) -> None:
    with pytest.raises(ContentError, match="did you mean 'deadly_corridor'"):
        scenario.prepare("deadly_coridor", tmp_path)


@pytest.mark.parametrize("data", [b"", b"PWAD", b"RIFF" + bytes(40), b"PWAD\x05\0\0\0\xff\0\0\0"])
def test_files_that_are_no_wad_are_told(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.wad").write_bytes(data)
    with pytest.raises(ContentError, match="WAD"):
        wad.starts(tmp_path / "x.wad", "map01")


def test_lumps_survive_packing(tmp_path: Path) -> None:
    lumps = [("MAP01", b""), ("TEXTMAP", b"thing { x = 1; type = 4002; }"), ("ENDMAP", b"")]
    (tmp_path / "x.wad").write_bytes(wad.pack(lumps))
    assert list(wad.unpack(tmp_path / "x.wad")) == lumps


amounts = floats(-100, 100)


@given(kill=amounts, hit=amounts, death=amounts, damage_taken=amounts, goal=amounts, scenario=amounts)
def test_a_step_earns_the_weighted_sum_of_what_happened(**weights: float) -> None:
    before = np.zeros((2, len(FACTS)))
    after = before.copy()
    after[:, COLUMN["KILLCOUNT"]] = 3  # the level's count, which both have
    after[:, COLUMN["HITCOUNT"]] = 5, 1
    after[:, COLUMN["DEATHCOUNT"]] = 1, 1
    after[:, COLUMN["DAMAGE_TAKEN"]] = 10, 30
    after[:, COLUMN["TOTAL_REWARD"]] = 0.5, 1
    after[:, COLUMN["HEALTH"]] = 90, 70
    counts = {"kill": 3, "hit": 6, "death": 2, "damage_taken": 40, "goal": 1, "scenario": 1.5}
    expected = sum(weights[name] * count for name, count in counts.items())
    assert team_reward(before, after, Rewards(**weights), goal=True) == pytest.approx(expected)
    assert asdict(Rewards(**weights)) == weights


counts = integers(-3, 9)


@given(
    frags=lists(counts, min_size=4, max_size=4), hits=lists(counts, min_size=4, max_size=4), kill=amounts, hit=amounts
)
def test_what_one_side_earns_the_other_loses(frags: list[int], hits: list[int], kill: float, hit: float) -> None:
    config = VZCoopConfig(num_players=4, sides=2, rewards=Rewards(kill=kill, hit=hit, death=0, damage_taken=0))
    before = np.zeros((4, len(FACTS)))
    after = before.copy()
    after[:, COLUMN["FRAGCOUNT"]], after[:, COLUMN["HITCOUNT"]] = frags, hits
    after[:, COLUMN["KILLCOUNT"]] = 7  # of the level: nobody's
    first, second, third, fourth = player_rewards(before, after, config, goal=True)
    assert first == second == -third == -fourth
    ahead = [sum(each[:2]) - sum(each[2:]) for each in (frags, hits)]
    assert first == pytest.approx(kill * ahead[0] + hit * ahead[1])


def test_of_one_side_everybody_earns_the_same() -> None:
    before = np.zeros((5, 2, len(FACTS)))
    after = before.copy()
    after[3, :, COLUMN["KILLCOUNT"]] = 2
    rewards = player_rewards(before, after, VZCoopConfig(), goal=False)
    assert rewards.tolist() == [[0, 0], [0, 0], [0, 0], [2, 2], [0, 0]]
