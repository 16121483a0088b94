"""Scenarios in which one must look: what a shot is worth, what a blind rule gets, what an oracle gets."""

from __future__ import annotations

from typing import Any

import pytest

from reelrl.act.doom.scenarios import find
from reelrl.act.doom.teams import BlindTeam, OracleTeam, play
from reelrl.errors import GameError
from tests.act.makers import ATTACK, NO_OP, coop_env, together

pytestmark = pytest.mark.slow

SCENARIOS = [name for name, module in find.OURS.items() if hasattr(module, "REWARDS") and not hasattr(module, "SIDES")]


def scenario_env(name: str, players: int = 2, **changes: Any) -> Any:
    rewards = find.OURS[name].REWARDS
    return coop_env(players, config_path=name, rewards=rewards, aux_observations=["ammo"], **changes)


@pytest.mark.parametrize(
    "name", [SCENARIOS[0], *(pytest.param(name, marks=pytest.mark.long) for name in SCENARIOS[1:])]
)
def test_an_oracle_beats_who_sweeps_in_the_same_match(name: str) -> None:
    blind, knowing = (scenario_env(name, sightings=sightings) for sightings in (False, True))
    try:
        swept = play(blind, BlindTeam("sweep"), seed=1)
        best = play(knowing, OracleTeam(knowing), seed=1)
    finally:
        blind.close()
        knowing.close()
    assert best.reward >= swept.reward + 2


def test_nobody_pays_in_nine_rooms_for_the_bullets_of_the_episode_before() -> None:
    env = coop_env(config_path="nine_rooms", aux_observations=["ammo"])
    env.reset()
    for _ in range(8):
        env.step(together(env, ATTACK))
    observations, _ = env.reset()
    assert [seen["ammo"].item() for seen in observations.values()] == [60, 60]
    env.close()


def test_every_episode_begins_with_all_bullets() -> None:
    env = scenario_env("hiders")
    observations, _ = env.reset()
    for _ in range(40):
        observations, rewards, *_ = env.step(together(env, ATTACK))
        assert set(rewards.values()) == {0.0}, "from the middle nobody is in sight"
    assert [seen["ammo"].item() for seen in observations.values()] == [0, 0]
    observations, _ = env.reset()
    assert [seen["ammo"].item() for seen in observations.values()] == [6, 6]
    env.close()


def test_a_bystander_costs_whoever_shot_it_what_an_intruder_brings() -> None:
    env = scenario_env("bystanders")
    env.reset(seed=0)
    gained = 0.0
    infos: dict[str, Any] = {}
    team = BlindTeam("sweep")
    team.reset(0)
    while env.agents and (not infos or infos["player_0"]["tic"] < 300):
        _, rewards, _, _, infos = env.step(team.act(dict.fromkeys(env.agents)))
        gained += rewards["player_0"]
    lost = sum(info["damage_taken"] for info in infos.values())
    assert lost > 0
    assert gained == pytest.approx(infos["player_0"]["kills"] - lost / 10)
    env.close()


def test_a_closed_gate_lets_no_bullet_through() -> None:
    env = scenario_env("gate")
    env.reset()
    for _ in range(40):
        _, rewards, _, _, infos = env.step({"player_0": NO_OP, "player_1": ATTACK})
        assert rewards["player_0"] == 0
    assert sum(info["hits"] for info in infos.values()) == 0
    env.close()


def test_there_is_no_ground_truth_unless_it_was_asked_for() -> None:
    env = scenario_env("hiders", 1)
    env.reset()
    with pytest.raises(GameError, match="sightings=True"):
        _ = env.ground_truth
    env.close()
