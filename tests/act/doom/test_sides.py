"""Two sides against each other: frags, rewards, rules, and one side as an environment of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test

from reelrl.act.doom.one_side import OneSide
from reelrl.act.doom.scenarios import duel
from reelrl.act.doom.shared_memory import COLUMN
from reelrl.act.doom.teams import BlindTeam, OracleTeam, RandomTeam, TwoSides, play
from reelrl.errors import ConfigError
from tests.act.makers import ATTACK, NO_OP, TURN_LEFT, coop_env, footprint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reelrl.act.doom.teams import Team

pytestmark = pytest.mark.slow


def duel_env(players: int = 2, **changes: Any) -> Any:
    return coop_env(players, config_path="duel", sides=2, rewards=duel.REWARDS, **changes)


@pytest.fixture(scope="module")
def pair() -> Iterator[Any]:
    env = duel_env(sightings=True)
    yield env
    env.close()


@pytest.mark.parametrize("players", [2, pytest.param(4, marks=pytest.mark.long)])
def test_pettingzoo_finds_no_fault(players: int) -> None:
    env = duel_env(players, max_steps=20)
    parallel_api_test(env, num_cycles=30)
    held = footprint(env.pids)
    env.close()
    assert held.left() == []


@pytest.mark.parametrize("oracle_is_a", [True, False])
def test_a_frag_is_a_point_for_one_side_and_costs_the_other(pair: Any, oracle_is_a: bool) -> None:
    sides: list[Team] = [OracleTeam(pair), BlindTeam("sweep")]
    team = TwoSides(*(sides if oracle_is_a else sides[::-1]))
    observations, _ = pair.reset(seed=1)
    team.reset(1)
    total = np.zeros(2)
    infos: dict[str, Any] = {}
    while pair.agents:
        observations, rewards, terminated, truncated, infos = pair.step(team.act(observations))
        assert rewards["player_0"] == -rewards["player_1"]
        total += list(rewards.values())
    frags, deaths = ([info[name] for info in infos.values()] for name in ("frags", "deaths"))
    assert total[0] == frags[0] - frags[1]
    assert deaths == frags[::-1], "who does not shoot himself dies by the other's hand alone"
    assert (total[0] > 2) == oracle_is_a
    assert (any(terminated.values()), all(truncated.values())) == (False, True)
    assert infos["player_0"]["tic"] == duel.TIME_LIMIT_TICS + 1


def test_an_episode_begins_with_everyone_alive_and_no_frags(pair: Any) -> None:
    team = TwoSides(OracleTeam(pair), RandomTeam())
    pair.reset(seed=2)
    team.reset(2)
    seen: dict[str, Any] = dict.fromkeys(pair.agents)
    infos: dict[str, Any] = {}
    while not infos or not infos["player_1"]["deaths"]:
        *_, infos = pair.step(team.act(seen))
    _, infos = pair.reset()
    assert [(each["health"], each["frags"], each["deaths"]) for each in infos.values()] == [(20, 0, 0)] * 2
    assert infos["player_0"]["position"] != infos["player_1"]["position"]


def test_a_duel_repeats_to_the_byte() -> None:
    def views(seed: int) -> list[Any]:
        env = duel_env()
        team = TwoSides(RandomTeam(), BlindTeam("march"))
        observations, _ = env.reset(seed=seed)
        team.reset(seed)
        seen = []
        for _ in range(60):
            observations, *_ = env.step(team.act(observations))
            seen.append(observations["player_1"])
        env.close()
        return seen

    assert np.array_equal(views(4), views(4))


def test_both_sides_by_chance_do_not_draw_alike() -> None:
    team = TwoSides(RandomTeam(), RandomTeam())
    team.reset(0)
    drawn = [tuple(team.act({"player_0": None, "player_1": None}).values()) for _ in range(20)]
    assert any(one != other for one, other in drawn)


@pytest.mark.long
def test_of_two_pairs_each_side_has_its_number_and_a_rule_beats_the_other() -> None:
    env = duel_env(4, sightings=True, aux_observations=["team_id"])
    observations, _ = env.reset(seed=0)
    assert [seen["team_id"].item() for seen in observations.values()] == [0, 0, 1, 1]
    played = play(env, TwoSides(OracleTeam(env), BlindTeam("sweep")), seed=0)
    env.close()
    assert played.reward >= 3


@pytest.mark.long
def test_mates_who_shoot_at_each_other_are_not_hurt() -> None:
    env = duel_env(4, sightings=True)
    env.reset(seed=0)
    infos: dict[str, Any] = {}
    shots = 0
    while env.agents:
        facts, _ = env.ground_truth
        where, angles = (
            facts[:, [COLUMN[name] for name in names]] for names in (("POSITION_X", "POSITION_Y"), ("ANGLE",))
        )
        actions = dict.fromkeys(env.agents, NO_OP)
        for player, mate in ((0, 1), (1, 0)):
            wanted = np.degrees(np.arctan2(*(where[mate] - where[player])[::-1]))
            in_line = abs((wanted - angles[player, 0] + 180) % 360 - 180) < 8
            actions[f"player_{player}"] = ATTACK if in_line else TURN_LEFT
            shots += in_line
        *_, infos = env.step(actions)
    env.close()
    assert shots > 50
    assert [info["damage_taken"] for info in infos.values()] == [0] * 4


def test_one_side_is_an_environment_in_which_the_other_is_part_of_the_world() -> None:
    env = duel_env(max_steps=20)
    one = OneSide(env, BlindTeam("fire"))
    parallel_api_test(one, num_cycles=30)
    _, infos = one.reset(seed=0)
    assert list(infos) == ["player_0"]
    with pytest.raises(ConfigError, match="no action for player_0"):
        one.step({})
    one.close()
    with pytest.raises(ConfigError, match="sides is 1, so nobody is there to play against"):
        OneSide(coop_env(), BlindTeam("fire"))
