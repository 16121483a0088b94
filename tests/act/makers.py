"""Matches that are quick to play, and what a match keeps on the machine while it lives."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelrl.act import VizDoomCoopParallelEnv, VZCoopConfig
from reelrl.act.doom import engines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SMALL = "RES_160X120"
NO_OP, FORWARD, TURN_LEFT, ATTACK = 0, 1, 2, 6


def small_config(players: int = 2, **changes: Any) -> VZCoopConfig:
    settings: dict[str, Any] = {"num_players": players, "skip": 4, "screen_resolution": SMALL}
    return VZCoopConfig(**settings | changes)


def coop_env(players: int = 2, frame_stack: int = 1, max_steps: int | None = None, **changes: Any) -> Any:
    """An environment with small pictures; keywords of the environment and of its settings alike."""
    named = ("aux_observations", "channels_last", "sightings")
    own = {name: changes.pop(name) for name in named if name in changes}
    return VizDoomCoopParallelEnv(small_config(players, **changes), frame_stack, max_steps, **own)


def together(env: Any, action: int) -> dict[str, int]:
    """The same action for everyone."""
    return dict.fromkeys(env.agents, action)


def spin_and_shoot(step: int) -> int:
    """A simple scripted player: two shots, a turn."""
    return ATTACK if step % 3 else TURN_LEFT


def play_until(env: Any, done: Callable[[dict[str, Any]], bool], action: int = NO_OP, steps: int = 600) -> Any:
    """Step until the infos say so; the last step's answer."""
    for _ in range(steps):
        answer = env.step(together(env, action))
        if done(answer[4]):
            return answer
    raise AssertionError(f"it did not happen in {steps} steps; the last infos were {answer[4]}")


@dataclass(frozen=True)
class Footprint:
    """Process groups, files of shared memory and folders of a running match."""

    groups: tuple[int, ...]
    shared_memory: tuple[Path, ...]
    folders: tuple[Path, ...]

    def left(self) -> list[str]:
        """What is still there."""
        groups = [f"group {group}: {states}" for group in self.groups if (states := engines.states(group))]
        return groups + [str(path) for path in (*self.shared_memory, *self.folders) if path.exists()]

    def left_after(self, seconds: float) -> list[str]:
        """What is still there when it has had some time to go."""
        until = time.monotonic() + seconds
        while self.left() and time.monotonic() < until:
            time.sleep(0.02)
        return self.left()


def footprint(pids: Sequence[int]) -> Footprint:
    """What the players with these process ids hold, read from the system and not from the match."""
    memory, folders = set(), set()
    for pid in pids:
        memory |= set(re.findall(r"/dev/shm/ViZDoom\w+", Path(f"/proc/{pid}/maps").read_text()))
        folders.add(Path(f"/proc/{pid}/cwd").resolve().parent)
    found = Footprint(tuple(pids), tuple(map(Path, sorted(memory))), tuple(sorted(folders)))
    assert len(found.shared_memory) == 3 * len(pids), "every engine has three files of shared memory"
    assert all(len(engines.states(pid)) >= 2 for pid in pids), "a player and its engine share a process group"
    return found


def engine_of(player: int) -> int:
    """Process id of a player's engine."""
    children = Path(f"/proc/{player}/task").glob("*/children")
    return next(int(pid) for file in children for pid in file.read_text().split())
