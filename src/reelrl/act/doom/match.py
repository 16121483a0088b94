"""A match: players who meet, advance together one tic at a time, and end together.

The engines of a netgame wait for each other every tic, and hang when one runs ahead. So every tic is a barrier: all
players get their order before any answer is read, and none gets the next before all have answered.
"""

from __future__ import annotations

import os
import shlex
import shutil
import weakref
from typing import TYPE_CHECKING

import numpy as np

from reelrl.act.doom import engines, ports
from reelrl.act.doom.player_process import DIE, GOAL_REACHED, HOLD, NEW_EPISODE, SHOW, TIME_OVER, WENT_ON, Part
from reelrl.act.doom.player_supervisor import PlayerGroup
from reelrl.act.doom.scenarios import find as scenario
from reelrl.act.doom.shared_memory import COLUMN, MatchMemory
from reelrl.errors import GameError, MissingExtra

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from reelrl.act.doom.settings import VZCoopConfig

_TRIES = 3  # another process may take a free port in the moment between finding and using it
_NO_ACTION = bytes((0,))
_DYING_TICS = 20  # at most; usually two
_SETTLING_TICS = 8  # a level's first tics, in which players do not move whatever they are told


class Match:
    """Players 0 to n - 1 of one game, in the engine's own order. After any error, and after `close`, it is gone.

    With `sightings` players also tell whom they see; with `own_colours` each wears another colour, where otherwise all
    are green; with `survey` the map's sectors are written to that file.
    """

    def __init__(
        self,
        config: VZCoopConfig,
        seed: int,
        *,
        sightings: bool = False,
        own_colours: bool = False,
        survey: Path | None = None,
    ) -> None:
        self.config = config
        folder = engines.match_folder()
        self._memory = MatchMemory(config.num_players, *config.picture_size, sightings=sightings)
        self._clean = weakref.finalize(self, _clean, os.getpid(), self._memory, folder)
        try:
            self._players = _meet(config, seed, folder, self._memory, sightings, own_colours, survey)
        except BaseException:
            self._clean()
            raise
        # Joiners race for their places; the engine's own numbers are the ones that count.
        numbers = self._memory.facts[:, COLUMN["PLAYER_NUMBER"]].astype(int)
        self._players.numbers = numbers.tolist()
        self._order = np.argsort(numbers)
        self._settle()
        self._full_health = self.facts[:, COLUMN["HEALTH"]]

    @property
    def alive(self) -> bool:
        """False once it was closed or lost a player."""
        return self._clean.alive

    @property
    def pids(self) -> list[int]:
        """Process ids of the players, which are also those of the process groups that hold their engines."""
        return [self._players.pids[index] for index in self._order]

    @property
    def facts(self) -> NDArray[np.float64]:
        """(players, facts) after the last step: a copy."""
        return self._memory.facts[self._order]

    @property
    def pictures(self) -> NDArray[np.uint8]:
        """(players, 3, height, width) after the last step: a copy."""
        return self._memory.pictures[self._order]

    @property
    def sightings(self) -> NDArray[np.float64]:
        """(players, rows, columns) after the last step, where they were asked for: a copy."""
        return self._memory.sightings[self._order]

    def step(self, actions: Sequence[int]) -> bytes:
        """Hold one action per player for as many tics as the settings say; returns how the episode stands."""
        orders = [bytes((actions[number],)) for number in self._players.numbers]
        for tic in range(self.config.skip):
            kind = SHOW if tic == self.config.skip - 1 else HOLD
            self.outcome = self._send([kind + action for action in orders])
            if self.outcome != WENT_ON:
                break
        return self.outcome

    def new_episode(self) -> None:
        """Begin anew in the same engines; chance goes on from where it was."""
        if self.outcome == GOAL_REACHED:
            self._begin()  # nobody can die in a level that is over
        # Co-operative games keep health and weapons from level to level; only those who died get new ones. One who
        # came back quickly may have been hurt again before the others were dead.
        for _ in range(_TRIES):
            self._die()
            self._begin()
            if np.array_equal(self.facts[:, COLUMN["HEALTH"]], self._full_health):
                break

    def close(self) -> None:
        """End all processes and remove what they shared. A second call does nothing."""
        self._players.end()
        self._clean()

    def _begin(self) -> None:
        self._send_all(NEW_EPISODE)
        self._settle()

    def _settle(self) -> None:
        for _ in range(_SETTLING_TICS - 1):
            self._send_all(HOLD)
        self._send_all(SHOW)
        self.outcome = WENT_ON

    def _die(self) -> None:
        deaths = self.facts[:, COLUMN["DEATHCOUNT"]]
        self._send_all(DIE)
        for _ in range(_DYING_TICS):
            self._send_all(SHOW)
            facts = self.facts
            if np.all((facts[:, COLUMN["DEATHCOUNT"]] > deaths) | (facts[:, COLUMN["DEAD"]] > 0)):
                break

    def _send_all(self, kind: bytes) -> None:
        self._send([kind + _NO_ACTION] * self.config.num_players)

    def _send(self, orders: list[bytes]) -> bytes:
        try:
            answers = self._players.send(orders, self.config.deadline_s)
        except BaseException:
            self.close()
            raise
        if GOAL_REACHED in answers:
            return GOAL_REACHED
        return TIME_OVER if TIME_OVER in answers else WENT_ON


def _meet(
    config: VZCoopConfig,
    seed: int,
    folder: Path,
    memory: MatchMemory,
    sightings: bool,
    own_colours: bool,
    survey: Path | None,
) -> PlayerGroup:
    """Start all players and wait until they are in one game."""
    path = scenario.prepare(config.config_path, folder)
    engine = _engine_that_dies_with_its_player(folder)
    for attempt in range(_TRIES):
        if config.port is not None:
            ports.require_free(config.port)
        port = config.port or ports.free_port()
        parts = [_part(config, index, seed, port, path, folder, engine) for index in range(config.num_players)]
        parts = [part._replace(sightings=sightings, own_colours=own_colours) for part in parts]
        parts[0] = parts[0]._replace(survey=None if survey is None else str(survey.resolve()))
        group = PlayerGroup(parts, memory, start_order=[*range(1, config.num_players), 0])
        try:
            group.receive(config.start_deadline_s)
            return group
        except BaseException as error:
            group.end()
            taken = isinstance(error, GameError) and not ports.is_free(port)
            if not taken or attempt == _TRIES - 1:
                raise
    raise GameError("no port could be had")  # not reached


def _part(config: VZCoopConfig, index: int, seed: int, port: int, path: Path, folder: Path, engine: str) -> Part:
    return Part(
        player=index,
        players=config.num_players,
        scenario=str(path),
        folder=str(folder),
        engine=engine,
        game_args=_game_args(config, index, port),
        seed=seed,
        resolution=config.screen_resolution,
        picture_size=config.picture_size,
        shrink=config.picture_size != config.screen_size,
        mask_hud=config.mask_hud,
        window_visible=config.window_visible,
        console_enabled=config.console_enabled,
        ticrate=config.ticrate,
        last_tic=None if config.timelimit_minutes is None else round(config.timelimit_minutes * 60 * config.ticrate),
        sightings=False,
        own_colours=False,
        survey=None,
    )


def _game_args(config: VZCoopConfig, index: int, port: int) -> str:
    # Netmode 1 alone is reproducible, and it meets with two players at most. The dead come back by themselves after two
    # tics: asking for it would advance one engine alone.
    words = ["+viz_connect_timeout", "60", "+sv_forcerespawn", "1", "+viz_respawn_delay", "0"]
    if index == 0:
        netmode = 1 if config.num_players <= 2 else 0
        words += ["-host", str(config.num_players), "-port", str(port), "-netmode", str(netmode)]
    else:
        words += ["-join", f"{config.host_ip}:{port}"]
    if config.window_visible:
        height, width = config.screen_size
        column, row = (index % 2, index // 2) if config.tile_windows else (0, 0)
        words += ["+win_x", str(config.win_x + column * width), "+win_y", str(config.win_y + row * height)]
    return " ".join([*words, config.extra_game_args]).strip()


def _engine_that_dies_with_its_player(folder: Path) -> str:
    try:
        import vizdoom
    except ImportError as error:
        raise MissingExtra("vizdoom", "doom") from error
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return str(vizdoom.exe_path)  # the match and the player's own watcher still end it
    script = folder / "engine.sh"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(setpriv)} --pdeathsig KILL {shlex.quote(vizdoom.exe_path)} "$@"\n')
    script.chmod(0o700)
    return str(script)


def _clean(owner: int, memory: MatchMemory, folder: Path) -> None:
    memory.close()
    if os.getpid() == owner:  # and not a fork of it
        shutil.rmtree(folder, ignore_errors=True)
