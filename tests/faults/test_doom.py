"""Doom matches that lose a player, their trainer or their port: told by name, soon, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import vizdoom

from reelrl.act import VizDoomCoopParallelEnv, VZCoopConfig
from reelrl.act.doom import engines, match, ports
from reelrl.act.doom.player_supervisor import PlayerGroup
from reelrl.act.doom.scenarios import find as scenario
from reelrl.act.doom.shared_memory import MatchMemory
from reelrl.cli.main import main
from reelrl.errors import ContentError, GameError, ReelError
from tests.act.makers import NO_OP, Footprint, coop_env, engine_of, footprint, small_config, together
from tests.waiting import HANG_S, until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

# A trainer in a process of its own: it prints the players' process ids, then plays until it is stopped.
TRAINER = """
import itertools, sys
from tests.act.makers import coop_env, together
env = coop_env(2)
env.reset()
print(*env.pids, flush=True)
try:
    for step in itertools.count():
        if not env.agents:
            env.reset()
        env.step(together(env, step % 8))
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(130)
"""


@pytest.fixture(params=[3, 2], ids=["three players", "two whose engines take turns"])
def env(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(match, "cores", lambda: 1)
    env = coop_env(request.param, deadline_s=3600.0)  # what is noticed is not noticed by waiting
    env.reset()
    yield env
    env.close()


def play(env: Any, steps: int = 50) -> None:
    for _ in range(steps):
        env.step(together(env, NO_OP))


@pytest.fixture
def trainer() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", TRAINER], stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def players_of(trainer: subprocess.Popen[str]) -> list[int]:
    assert trainer.stdout is not None
    return [int(pid) for pid in trainer.stdout.readline().split()]


@pytest.mark.parametrize("victim", [0, -1], ids=["host", "joiner"])
@pytest.mark.parametrize("of", ["player", "engine"])
def test_a_killed_player_is_named_soon_and_takes_its_match_along(env: Any, victim: int, of: str) -> None:
    play(env)
    held = footprint(env.pids)
    pid, name = env.pids[victim], env.agents[victim]
    os.kill(pid if of == "player" else engine_of(pid), signal.SIGKILL)
    with pytest.raises(GameError, match=name):
        play(env)
    assert held.left_after(HANG_S) == []
    with pytest.raises(GameError):
        env.step(together(env, NO_OP))


def test_after_a_loss_reset_starts_another_match() -> None:
    env = coop_env(2)
    env.reset()
    os.kill(env.pids[1], signal.SIGKILL)
    with pytest.raises(GameError, match=r"player_1 died \(killed by SIGKILL\); reset\(\) starts another match"):
        play(env)
    _, infos = env.reset()
    assert infos["player_1"]["health"] == 100
    play(env, 3)
    env.close()


@pytest.mark.parametrize("cores", [1, 64], ids=["engines take turns", "a core for each"])
@pytest.mark.parametrize("of", ["player", "engine"])
def test_a_stuck_player_is_named_when_its_time_is_up(of: str, cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match, "cores", lambda: cores)
    env = coop_env(2, deadline_s=1.5)
    env.reset()
    held = footprint(env.pids)
    os.kill(env.pids[1] if of == "player" else engine_of(env.pids[1]), signal.SIGSTOP)
    with pytest.raises(GameError, match=r"player_1: stopped by a signal, and no answer for 1.5 s"):
        play(env)
    assert held.left_after(HANG_S) == []


def test_ctrl_c_in_the_middle_of_a_step_leaves_nothing(trainer: subprocess.Popen[str]) -> None:
    held = footprint(players_of(trainer))
    trainer.send_signal(signal.SIGINT)
    assert trainer.wait(HANG_S) == 130
    assert held.left_after(HANG_S) == []


def test_ctrl_c_while_the_players_meet_leaves_nothing(trainer: subprocess.Popen[str]) -> None:
    starting = starting_match(trainer.pid)
    trainer.send_signal(signal.SIGINT)
    assert trainer.wait(HANG_S) != 0
    assert starting.left_after(HANG_S) == []  # a player that was being started may take a moment to notice


def starting_match(trainer: int) -> Footprint:
    """What there is of a match that is just starting."""
    while True:
        folders = list(Path(tempfile.gettempdir()).glob(f"{engines.FOLDER_PREFIX}{trainer}-*"))
        children = [int(pid) for pid in Path(f"/proc/{trainer}/task/{trainer}/children").read_text().split()]
        if folders and len(children) == 2:
            return Footprint(tuple(children), (), tuple(folders))
        time.sleep(0.01)


@pytest.mark.parametrize("stuck", [False, True], ids=["playing", "stuck"])
def test_a_killed_trainer_leaves_nothing(trainer: subprocess.Popen[str], stuck: bool) -> None:
    players = players_of(trainer)
    held = footprint(players)
    if stuck:  # then the other player is waiting inside its engine and cannot read its socket
        os.kill(engine_of(players[0]), signal.SIGSTOP)
        time.sleep(0.3)
    trainer.kill()
    assert held.left_after(HANG_S) == []


def test_a_trainer_that_crashes_or_forgets_to_close_leaves_nothing() -> None:
    code = TRAINER.partition("try:")[0] + "env.step(together(env, 0))\nraise RuntimeError('trainer')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S)
    assert "RuntimeError: trainer" in done.stderr
    until(lambda: not any(engines.states(int(pid)) for pid in done.stdout.split()))


def test_an_environment_that_is_dropped_ends_its_match() -> None:
    env = coop_env(2)
    env.reset()
    held = footprint(env.pids)
    del env
    assert held.left_after(HANG_S) == []


def test_a_fork_of_the_trainer_does_not_end_the_match() -> None:
    env = coop_env(2)
    env.reset()
    child = os.fork()
    if child == 0:
        try:
            env.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    play(env, 3)
    assert all(Path(f"/proc/{pid}").exists() for pid in env.pids)
    env.close()


def test_a_taken_port_names_the_process_that_holds_it() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("", 0))
        env = coop_env(2, port=taken.getsockname()[1])
        with pytest.raises(GameError, match=rf"UDP port {env.cfg.port} is held by process {os.getpid()} \(.*python"):
            env.reset()
    env.reset()  # it is free now
    play(env, 2)
    second = coop_env(2, port=env.cfg.port)
    with pytest.raises(GameError, match=r"is held by process \d+ \(.*vizdoom"):
        second.reset()
    play(env, 2)
    env.close()


def test_a_port_that_is_lost_while_players_start_is_given_up_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check before the start cannot see this: the engine crashes on it and takes its process along."""
    before = set(engines.leftovers().shared_memory)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("", 0))
        offered = iter([taken.getsockname()[1], ports.free_port()])
        monkeypatch.setattr(ports, "free_port", lambda: next(offered))
        env = coop_env(2)
        env.reset()
    play(env, 2)
    env.close()
    # Engines of others may start meanwhile; what they made and do not map yet is soon theirs.
    until(lambda: set(engines.leftovers().shared_memory) <= before, "memory that nobody uses stayed")


@pytest.mark.parametrize(
    ("path", "words"), [("no_such.cfg", "no scenario 'no_such.cfg'"), ("cig", "no player starts for a co-operative")]
)
def test_a_scenario_that_cannot_be_played_is_told_before_anything_starts(path: str, words: str) -> None:
    env = VizDoomCoopParallelEnv(VZCoopConfig(config_path=path))
    with pytest.raises(ReelError, match=words):
        env.reset()
    assert env.pids == []


def test_an_engine_that_crashes_at_its_start_is_told_with_its_last_words(tmp_path: Path) -> None:
    path = tmp_path / "mine.cfg"
    path.write_text("doom_game_path = nothing.wad\n")
    env = VizDoomCoopParallelEnv(small_config(2, config_path=str(path)))
    with pytest.raises(GameError, match=r"player_\d failed.*\n.*nothing.wad"):
        env.reset()
    with pytest.raises(ContentError):
        coop_env(2, config_path=str(tmp_path)).reset()


def test_the_doctor_finds_what_a_dead_trainer_left_and_removes_it_when_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A real player that belongs to a trainer who is no more, by the name of its folder."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    folder = Path(tempfile.mkdtemp(prefix=f"{engines.FOLDER_PREFIX}{ended.pid}-"))
    config = small_config(1)
    path = scenario.prepare("nine_rooms", folder)
    memory = MatchMemory(1, *config.picture_size)
    group = PlayerGroup([match._part(config, 0, 0, ports.free_port(), path, folder, vizdoom.exe_path)], memory, [0])
    group.receive(HANG_S)
    held = footprint(group.pids)

    main(["doctor", "--quick"])
    report = capsys.readouterr().out
    assert "; run: reel doctor --clean" in report
    for part in (f"process {group.pids[0]}", f"process {engine_of(group.pids[0])}", str(folder)):
        assert part in report
    assert held.left() != [], "it removes nothing unasked"
    main(["doctor", "--quick", "--clean"])
    assert f"{held.shared_memory[0]}" in capsys.readouterr().out
    group.end()  # the test is their parent and must take note of their end
    assert held.left_after(HANG_S) == []


def test_what_is_in_use_is_no_leftover(env: Any) -> None:
    held = footprint(env.pids)
    found = engines.leftovers()
    assert not {*found.processes} & {*held.groups, *map(engine_of, held.groups)}
    assert not {*found.shared_memory, *found.folders} & {*held.shared_memory, *held.folders}


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_four_players_play_a_hundred_thousand_tics_at_random() -> None:
    import numpy as np

    chance = np.random.default_rng(0)
    env = coop_env(4)
    env.reset()
    tics = int(os.environ.get("REELRL_DOOM_TICS", "100000"))
    for _ in range(tics // env.cfg.skip):
        if not env.agents:
            env.reset()
        env.step(dict(zip(env.agents, chance.integers(8, size=4).tolist(), strict=True)))
    held = footprint(env.pids)
    env.close()
    assert held.left_after(HANG_S) == []
