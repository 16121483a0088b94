"""The cooperative environment: real engines, small pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

from reelrl.act.doom.env import ACTIONS
from reelrl.act.doom.scenarios import nine_rooms
from reelrl.errors import ConfigError, GameError
from tests.act.makers import (
    ATTACK,
    FORWARD,
    NO_OP,
    TURN_LEFT,
    coop_env,
    footprint,
    play_until,
    spin_and_shoot,
    together,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

FRESH_TIC = 9  # when an episode begins: the level's first tics are waited for


@pytest.fixture(scope="module")
def running() -> Iterator[Any]:
    """Two players, for tests that do not mind which episode it is."""
    env = coop_env(frame_stack=3, aux_observations=["health", "ammo", "team_id"])
    yield env
    env.close()


@pytest.fixture(scope="module")
def pair() -> Iterator[Any]:
    """Two players that see one frame."""
    env = coop_env()
    yield env
    env.close()


@pytest.mark.parametrize("players", [1, 2, *(pytest.param(number, marks=pytest.mark.long) for number in (4, 8))])
def test_pettingzoo_finds_no_fault(players: int) -> None:
    env = coop_env(players, max_steps=40)
    parallel_api_test(env, num_cycles=60)
    held = footprint(env.pids)
    env.close()
    assert held.left() == []
    env.close()


@pytest.mark.parametrize("players", [2, pytest.param(1, marks=pytest.mark.long)])
def test_pettingzoo_finds_seeds_respected(players: int) -> None:
    parallel_seed_test(lambda: coop_env(players), num_cycles=30)


def episode(seed: int, steps: int) -> list[Any]:
    env = coop_env()
    observations, infos = env.reset(seed=seed)
    seen: list[Any] = [(observations, infos)]
    chance = np.random.default_rng(1)
    for actions in chance.integers(len(ACTIONS), size=(steps, 2)):
        answer = env.step(dict(zip(env.agents, actions, strict=True)))
        seen.append(answer)
    env.close()
    return seen


def test_two_players_with_the_same_seed_and_actions_see_the_same_to_the_byte() -> None:
    first, second, other = episode(7, 250), episode(7, 250), episode(8, 250)
    for one, two in zip(first, second, strict=True):
        assert all(np.array_equal(one[0][agent], two[0][agent]) for agent in ("player_0", "player_1"))
        assert one[1:] == two[1:]
    assert any(
        not np.array_equal(one[0]["player_0"], two[0]["player_0"]) for one, two in zip(first, other, strict=True)
    )


def test_players_see_different_things(pair: Any) -> None:
    observations, infos = pair.reset()
    assert not np.array_equal(observations["player_0"], observations["player_1"])
    assert infos["player_0"]["position"] != infos["player_1"]["position"]


def test_actions_do_what_their_names_say(pair: Any) -> None:
    _, before = pair.reset()
    *_, walked = pair.step({"player_0": FORWARD, "player_1": TURN_LEFT})
    east, north, _ = np.subtract(walked["player_0"]["position"], before["player_0"]["position"])
    assert east > 2, "player_0 looks to the north-east at its start"
    assert north > 2
    assert walked["player_0"]["angle"] == before["player_0"]["angle"]
    assert walked["player_1"]["position"] == before["player_1"]["position"]
    assert 1 < walked["player_1"]["angle"] - before["player_1"]["angle"] < 90


def test_an_action_is_held_for_skip_tics(pair: Any) -> None:
    pair.reset()
    *_, one = pair.step(together(pair, NO_OP))
    *_, two = pair.step(together(pair, NO_OP))
    assert [two[agent]["tic"] - one[agent]["tic"] for agent in two] == [4, 4]


def test_the_dead_cost_the_team_come_back_and_play_on(pair: Any) -> None:
    pair.reset()
    _, rewards, terminated, truncated, infos = play_until(pair, lambda infos: infos["player_1"]["deaths"] > 0)
    assert rewards["player_0"] == rewards["player_1"] <= -1
    assert not any((terminated | truncated).values())
    _, _, _, _, infos = play_until(pair, lambda infos: infos["player_1"]["alive"], steps=3)
    assert infos["player_1"]["health"] > 50
    assert infos["player_1"]["deaths"] == 1


def test_a_fresh_episode_starts_everyone_at_full_health(pair: Any) -> None:
    pair.reset()
    play_until(pair, lambda infos: infos["player_0"]["health"] < 100)
    _, infos = pair.reset()
    for info in infos.values():
        assert (info["health"], info["tic"], info["kills"], info["deaths"]) == (100, FRESH_TIC, 0, 0)


def test_the_goal_ends_the_episode_for_all_and_the_next_one_is_fresh() -> None:
    env = coop_env(4, extra_game_args="+sv_infiniteammo 1")  # those who spin and shoot then kill all, nearly always
    for _ in range(5):
        env.reset()
        total, step = 0.0, 0
        while env.agents:
            _, rewards, terminated, truncated, infos = env.step(together(env, spin_and_shoot(step)))
            total, step = total + rewards["player_0"], step + 1
        if all(terminated.values()):
            break
    assert all(terminated.values())
    assert not any(truncated.values())
    assert infos["player_3"]["kills"] == nine_rooms.INTRUDERS
    assert infos["player_3"]["tic"] < nine_rooms.TIME_LIMIT_TICS
    assert rewards["player_0"] > 3, "the goal's reward, less what the last bites cost"
    lost = sum(0.01 * info["damage_taken"] + info["deaths"] - 0.1 * info["hits"] for info in infos.values())
    assert total == pytest.approx(nine_rooms.INTRUDERS + 5 - lost)
    _, infos = env.reset()
    assert [(info["health"], info["tic"], info["kills"]) for info in infos.values()] == [(100, FRESH_TIC, 0)] * 4
    env.close()


def test_the_scenarios_time_limit_truncates() -> None:
    env = coop_env(1, skip=100)
    env.reset()
    steps = 0
    while env.agents:
        _, _, terminated, truncated, infos = env.step(together(env, NO_OP))
        steps += 1
    env.close()
    assert (terminated, truncated) == ({"player_0": False}, {"player_0": True})
    assert (steps, infos["player_0"]["tic"]) == (nine_rooms.TIME_LIMIT_TICS // 100, nine_rooms.TIME_LIMIT_TICS + 1)


def test_a_time_limit_of_the_match_truncates() -> None:
    env = coop_env(2, timelimit_minutes=0.02)  # 42 tics
    env.reset()
    while env.agents:
        _, _, terminated, truncated, infos = env.step(together(env, NO_OP))
    env.close()
    assert (any(terminated.values()), all(truncated.values())) == (False, True)
    assert {info["tic"] for info in infos.values()} == {43}


def test_max_steps_truncates_everyone_and_then_reset_is_needed() -> None:
    env = coop_env(max_steps=2)
    env.reset()
    assert not any(env.step(together(env, NO_OP))[3].values())
    assert all(env.step(together(env, NO_OP))[3].values())
    assert env.agents == []
    with pytest.raises(GameError, match="call reset"):
        env.step({})
    env.close()


def test_teammates_cannot_be_hurt_and_hitting_them_earns_nothing(pair: Any) -> None:
    pair.reset()
    for _ in range(40):  # they start back to back; about half a turn
        *_, infos = pair.step({"player_0": TURN_LEFT, "player_1": NO_OP})
        if abs(infos["player_0"]["angle"] - 225) < 12:
            break
    *_, before = pair.step(together(pair, NO_OP))
    assert before["player_1"]["damage_taken"] == 0
    for _ in range(6):
        *_, infos = pair.step({"player_0": ATTACK, "player_1": NO_OP})
    assert infos["player_0"]["hits"] == 0
    assert infos["player_1"]["damage_taken"] == 0


def test_frames_are_stacked_newest_last_and_the_first_is_repeated(running: Any) -> None:
    first = running.reset()[0]["player_0"]["video"]
    assert first.shape == (3, 3, 120, 160)
    assert first.dtype == np.uint8
    assert np.array_equal(first[0], first[2])
    second = running.step(together(running, TURN_LEFT))[0]["player_0"]["video"]
    assert np.array_equal(second[1], first[2])
    assert not np.array_equal(second[2], first[2])


def test_an_observation_stays_what_it_was(running: Any) -> None:
    seen = running.reset()[0]["player_0"]["video"]
    kept = seen.copy()
    running.step(together(running, TURN_LEFT))
    running.reset()
    assert np.array_equal(seen, kept)


def test_aux_observations_come_beside_the_video(running: Any) -> None:
    observation = running.reset()[0]["player_1"]
    assert observation in running.observation_space("player_1")
    assert {name: value.tolist() for name, value in observation.items() if name != "video"} == {
        "health": [100.0],
        "ammo": [60.0],
        "team_id": [0.0],
    }


def test_all_views_are_drawn_in_one_picture() -> None:
    env = coop_env(3, channels_last=True)
    observations, _ = env.reset()
    picture = env.render()
    env.close()
    assert picture.shape == (240, 320, 3)
    assert np.array_equal(picture[:120, :160], observations["player_0"])
    assert np.array_equal(picture[:120, 160:], observations["player_1"])
    assert np.array_equal(picture[120:, :160], observations["player_2"])
    assert not picture[120:, 160:].any()


def start_of_one(**changes: Any) -> Any:
    env = coop_env(1, **changes)
    observations, _ = env.reset(seed=3)
    after = env.step(together(env, TURN_LEFT))[0]
    env.close()
    return observations["player_0"], after["player_0"]


def test_pictures_are_shrunk_as_opencv_shrinks_them() -> None:
    full, _ = start_of_one(channels_last=True)
    small, _ = start_of_one(observation_size=[84, 72])
    assert small.shape == (1, 3, 84, 72)
    wanted = cv2.resize(full, (72, 84), interpolation=cv2.INTER_AREA)
    assert np.array_equal(small[0].transpose(1, 2, 0), wanted)


def test_the_status_bar_can_be_hidden() -> None:
    # Turning moves everything that belongs to the world, and nothing of a status bar but its face.
    bar = slice(108, 120)
    shown, turned = (picture[0, :, bar, :60] for picture in start_of_one())
    assert np.array_equal(shown, turned)
    world, turned = (picture[0, :, bar, :60] for picture in start_of_one(mask_hud=True))
    assert not np.array_equal(world, turned)


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        ({"player_0": 0}, "no action for player_1"),
        ({"player_0": 0, "player_1": 8}, "player_1: action 8 is none of 0 no-op"),
        ({"player_0": -1, "player_1": 0}, "player_0: action -1"),
        ({"player_0": 0, "player_1": 1.5}, "player_1: action 1.5"),
        ({"player_0": 0, "player_1": "attack"}, "player_1: action 'attack'"),
        ({"player_0": 0, "player_1": 0, "player_7": 0}, "player_7, who does not play"),
    ],
)
def test_wrong_actions_are_refused_by_name_and_the_match_goes_on(
    pair: Any, actions: dict[str, Any], words: str
) -> None:
    pair.reset()
    with pytest.raises(ConfigError, match=words):
        pair.step(actions)
    *_, infos = pair.step({"player_0": np.int64(0), "player_1": np.array(0)})
    assert infos["player_1"]["tic"] == FRESH_TIC + 4


def test_matches_run_side_by_side_without_noticing_each_other() -> None:
    alone = coop_env()
    alone.reset(seed=5)
    expected = [alone.step(together(alone, spin_and_shoot(step)))[0]["player_1"] for step in range(30)]
    alone.close()
    envs = [coop_env() for _ in range(3)]
    for env in envs:
        env.reset(seed=5)
    for step in range(30):
        for env in envs:
            seen = env.step(together(env, spin_and_shoot(step)))[0]["player_1"]
            assert np.array_equal(seen, expected[step])
    for env in envs:
        env.close()


def test_a_scenario_of_vizdooms_own_can_be_played() -> None:
    env = coop_env(2, config_path="deadly_corridor")
    _, infos = env.reset()
    assert infos["player_1"]["health"] == 100
    for _ in range(5):
        env.step(together(env, FORWARD))
    env.close()


def test_nothing_happens_before_the_first_reset() -> None:
    env = coop_env()
    assert env.pids == []
    for act in (lambda: env.step({}), env.render):
        with pytest.raises(GameError, match="call reset"):
            act()
    env.close()
