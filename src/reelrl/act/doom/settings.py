"""Settings of a match."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

from reelrl.errors import ConfigError, MissingExtra
from reelrl.names import did_you_mean

MOST_PLAYERS = 8  # what the engine can host


@dataclass(frozen=True, kw_only=True)
class Rewards:
    """What the team earns for each event, whoever of its players had a part in it."""

    kill: float = 1.0
    hit: float = 0.1
    """A bullet or blow that meets an enemy: it tells of aim long before a kill does."""
    death: float = -1.0
    damage_taken: float = -0.01
    """For each point of health."""
    goal: float = 5.0
    """Once, when the level is done."""
    scenario: float = 0.0
    """For each point that the scenario's own script gives."""


@dataclass(frozen=True, kw_only=True)
class VZCoopConfig:
    """One match: who plays, where, and how it looks. Names of ViZDoom's enums may be text, as YAML has them."""

    config_path: str = "nine_rooms"
    """A scenario of ours, one of ViZDoom's by name (`deadly_corridor`), or the path of a .cfg file."""
    num_players: int = 2
    """player_0 hosts."""
    sides: int = 1
    """1 is a team that plays together. 2 play against each other (`-deathmatch`): the first half of the players is side
    A, the others are side B."""
    host_ip: str = "127.0.0.1"
    port: int | None = None
    """None finds a free one."""
    mode: str = "PLAYER"
    ticrate: int = 35
    """Tics a second, for the game's clock alone: the match runs as fast as its slowest player."""
    skip: int = 1
    """Tics that an action is held."""
    screen_resolution: str = "RES_320X240"
    observation_size: tuple[int, int] | None = None
    """(height, width) to shrink pictures to, in each player's process; None leaves them as the engine draws them."""
    mask_hud: bool = False
    """Hide the status bar and messages, which tell health, weapon and events to whoever can read."""
    window_visible: bool = False
    console_enabled: bool = False
    timelimit_minutes: float | None = None
    extra_game_args: str = ""
    tile_windows: bool = False
    win_x: int = 80
    win_y: int = 80
    rewards: Rewards = field(default_factory=Rewards)
    deadline_s: float = 8.0
    """How long a player may take for one action, or to begin a new episode, before it counts as stuck."""
    start_deadline_s: float = 90.0
    """How long all players together may take to meet; a second or two on an idle machine."""

    def __post_init__(self) -> None:
        for name, kind in (("mode", "Mode"), ("screen_resolution", "ScreenResolution")):
            object.__setattr__(self, name, _enum_name(getattr(self, name), kind, name))
        if self.mode != "PLAYER":
            raise ConfigError(f"mode is {self.mode}; players who wait for each other every tic need PLAYER")
        _check_whole("num_players", self.num_players, 1, MOST_PLAYERS)
        self._check_sides()
        _check_whole("skip", self.skip, 1, 100)
        _check_whole("ticrate", self.ticrate, 1, 10_000)
        if self.port is not None:
            _check_whole("port", self.port, 1, 65535)
        if self.observation_size is not None:
            object.__setattr__(self, "observation_size", _size(self.observation_size))
        for name in ("timelimit_minutes", "deadline_s", "start_deadline_s"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ConfigError(f"{name} is {value}; give a number above 0")

    def _check_sides(self) -> None:
        _check_whole("sides", self.sides, 1, 2)
        if self.num_players < self.sides:
            raise ConfigError("sides is 2 and num_players 1, so side B has no player; give 2 players or more")
        if self.num_players % self.sides:
            raise ConfigError(f"num_players is {self.num_players}, which two sides cannot share; give an even number")

    @property
    def team_size(self) -> int:
        """Players of each side."""
        return self.num_players // self.sides

    @property
    def screen_size(self) -> tuple[int, int]:
        """(height, width) that the engine draws."""
        width, height = re.findall(r"\d+", self.screen_resolution)
        return int(height), int(width)

    @property
    def picture_size(self) -> tuple[int, int]:
        """(height, width) that players see."""
        return self.observation_size or self.screen_size


def _enum_name(value: Any, kind: str, setting: str) -> str:
    """The name of a member of ViZDoom's enum `kind`, of which `value` is the member or its text in any case."""
    try:
        import vizdoom
    except ImportError as error:
        raise MissingExtra("vizdoom", "doom") from error
    known = getattr(vizdoom, kind).__members__
    name = (
        (value if isinstance(value, str) else getattr(value, "name", str(value)))
        .upper()
        .removeprefix(f"{kind}.".upper())
    )
    if name not in known:
        raise ConfigError(f"{setting} is {value!r}{did_you_mean(name, known)}")
    return name


def _check_whole(name: str, value: Any, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise ConfigError(f"{name} is {value!r}; give a whole number from {least} to {most}")


def _size(size: Any) -> tuple[int, int]:
    if len(size) != 2 or any(type(side) is not int or not 1 <= side <= 4096 for side in size):
        raise ConfigError(f"observation_size is {size!r}; give (height, width) in pixels, such as (84, 84)")
    height, width = size
    return height, width
