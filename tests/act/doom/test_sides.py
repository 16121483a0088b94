"""Two sides against each other: frags, rewards, rules, and one side as an environment of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test

from reelrl.act.doom.one_side import OneSide
from reelrl.act.doom.scenarios import duel
from reelrl.act.doom.teams import BlindTeam, OracleTeam, RandomTeam, TwoSides, play
from reelrl.errors import ConfigError
from tests.act.makers import coop_env, footprint

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
def test_of_two_pairs_mates_cannot_be_hurt_and_sides_are_known() -> None:
    env = duel_env(4, sightings=True, aux_observations=["team_id"])
    observations, _ = env.reset(seed=0)
    assert [seen["team_id"].item() for seen in observations.values()] == [0, 0, 1, 1]
    played = play(env, TwoSides(OracleTeam(env), BlindTeam("sweep")), seed=0)
    env.close()
    assert played.reward >= 3
    assert played.kills >= played.reward, "nobody loses a frag by killing a mate"


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
