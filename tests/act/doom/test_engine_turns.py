"""Two engines that run one after the other in every tic: the same match, and none that waits takes a core for it."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from reelrl.act.doom import engine_turns, match
from reelrl.act.doom.match import Match
from tests.act.makers import ATTACK, FORWARD, NO_OP, engine_of, small_config, spin_and_shoot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


def started(monkeypatch: pytest.MonkeyPatch, *, cores: int) -> Match:
    monkeypatch.setattr(match, "cores", lambda: cores)
    return Match(small_config(2), seed=3)


@pytest.fixture
def crowded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Match]:
    match = started(monkeypatch, cores=1)
    yield match
    match.close()


def played(match: Match, steps: int) -> list[NDArray[np.generic]]:
    seen: list[NDArray[np.generic]] = []
    for step in range(steps):
        match.step([spin_and_shoot(step), FORWARD])
        seen += [match.pictures, match.facts]
    match.close()
    return seen


def facts_of_episodes(match: Match) -> list[NDArray[np.generic]]:
    """Not the pictures: after a death the face in the status bar may look another way, whoever takes turns."""
    seen: list[NDArray[np.generic]] = []
    for step in range(80):
        if step % 30 == 29:
            match.new_episode()
        match.step([spin_and_shoot(step), FORWARD])
        seen.append(match.facts)
    match.close()
    return seen


def cpu_s(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def test_a_match_is_the_same_to_the_byte_on_few_cores_and_on_many(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (played(started(monkeypatch, cores=cores), 80) for cores in (1, 64))
    assert all(np.array_equal(one, other) for one, other in zip(few, many, strict=True))


def test_an_engine_that_waits_for_the_host_sleeps(crowded: Match) -> None:
    host, joiner = map(engine_of, crowded.pids)
    crowded.step([NO_OP, NO_OP])
    os.kill(host, signal.SIGSTOP)
    before = cpu_s(joiner)
    crowded.start_step([NO_OP, NO_OP])
    time.sleep(0.5)
    os.kill(joiner, signal.SIGSTOP)  # as one does who looks on with a debugger
    os.kill(joiner, signal.SIGCONT)
    assert cpu_s(joiner) - before < 0.1
    os.kill(host, signal.SIGCONT)
    crowded.finish()
    crowded.step([ATTACK, ATTACK])


def test_new_episodes_go_the_same_way_on_few_cores_and_on_many(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (facts_of_episodes(started(monkeypatch, cores=cores)) for cores in (1, 64))
    assert all(np.array_equal(one, other) for one, other in zip(few, many, strict=True))


def test_engines_wait_in_their_own_way_where_a_socket_cannot_be_shared() -> None:
    host, joiner = socket.socketpair()
    with host, joiner:
        turns = [engine_turns.arrange(end, None, is_host=end is host) for end in (joiner, host)]
    assert [type(each) for each in turns] == [engine_turns.Turns] * 2


def test_a_process_without_an_engine_has_no_socket_to_share() -> None:
    assert engine_turns.engine_socket() is None
