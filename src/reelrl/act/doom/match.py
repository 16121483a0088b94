"""A match: players who meet, act together, and end together.

All players get their order before any answer is read, and none gets the next before all have answered. In between they
advance tic by tic, each waiting for the others (player_process), so that many matches can run side by side while their
trainer does something else: `start_step` for all of them, then `finish` for each.
"""

from __future__ import annotations

import os
import shlex
import shutil
import weakref
from typing import TYPE_CHECKING

import numpy as np

from reelrl.act.doom import engines, ports
from reelrl.act.doom.player_process import GOAL_REACHED, NEW_EPISODE, ORDER, PLAY, TIME_OVER, WENT_ON, Part
from reelrl.act.doom.player_supervisor import PlayerGroup
from reelrl.act.doom.scenarios import find as scenario
from reelrl.act.doom.shared_memory import MatchMemory
from reelrl.errors import GameError, MissingExtra
from reelrl.parallel.executor import cores

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from reelrl.act.doom.settings import VZCoopConfig

_TRIES = 3  # another process may take a free port in the moment between finding and using it


class Match:
    """Players 0 to n - 1 of one game, in the engine's own order. After any error, and after `close`, it is gone.

    With `sightings` players also tell whom they see; with `own_colours` each wears another colour, where otherwise all
    are green; with `survey` the map's sectors are written to that file. Matches of one batch share a `memory`, and each
    has its `place` there; the first pictures go to `slot`.
    """

    def __init__(
        self,
        config: VZCoopConfig,
        seed: int,
        *,
        sightings: bool = False,
        own_colours: bool = False,
        survey: Path | None = None,
        memory: MatchMemory | None = None,
        place: int = 0,
        slot: int = 0,
    ) -> None:
        self.config, self._place = config, place
        folder = engines.match_folder()
        self._memory = memory or MatchMemory(config.num_players, *config.picture_size, sightings=sightings)
        self._clean = weakref.finalize(self, _clean, os.getpid(), None if memory else self._memory, folder)
        try:
            self._players = _meet(config, seed, folder, self._memory, place, slot, sightings, own_colours, survey)
        except BaseException:
            self._clean()
            raise
        # Joiners race for their places; the engine's own numbers are the ones that count.
        self._players.numbers = self._memory.numbers[place].tolist()
        self.outcome = WENT_ON

    @property
    def alive(self) -> bool:
        """False once it was closed or lost a player."""
        return self._clean.alive

    @property
    def pids(self) -> list[int]:
        """Process ids of the players, which are also those of the process groups that hold their engines."""
        return [self._players.pids[index] for index in np.argsort(self._players.numbers)]

    @property
    def facts(self) -> NDArray[np.float64]:
        """(players, facts) after the last step: a copy."""
        copied: NDArray[np.float64] = self._memory.facts[self._place].copy()
        return copied

    @property
    def pictures(self) -> NDArray[np.uint8]:
        """(players, 3, height, width) after the last step: a copy."""
        copied: NDArray[np.uint8] = self._memory.pictures[0, self._place].copy()
        return copied

    @property
    def sightings(self) -> NDArray[np.float64]:
        """(players, rows, columns) after the last step, where they were asked for: a copy."""
        copied: NDArray[np.float64] = self._memory.sightings[self._place].copy()
        return copied

    def step(self, actions: Sequence[int]) -> bytes:
        """Hold one action per player for as many tics as the settings say; returns how the episode stands."""
        self.start_step(actions)
        return self.finish()

    def new_episode(self) -> None:
        """Begin anew in the same engines; chance goes on from where it was."""
        self.start_episode()
        self.finish()

    def start_step(self, actions: Sequence[int], slot: int = 0) -> None:
        """Begin a step, whose pictures go to `slot`; `finish` waits for its end."""
        self._send([ORDER.pack(PLAY, actions[number], slot) for number in self._players.numbers])

    def start_episode(self, slot: int = 0) -> None:
        """Begin a new episode, whose first pictures go to `slot`; `finish` waits until players may act."""
        self._send([ORDER.pack(NEW_EPISODE, 0, slot)] * self.config.num_players)

    def finish(self) -> bytes:
        """Wait for all players; returns how the episode stands."""
        try:
            answers = self._players.receive(self.config.deadline_s)
        except BaseException:
            self.close()
            raise
        self.outcome = next((each for each in (GOAL_REACHED, TIME_OVER) if each in answers), WENT_ON)
        return self.outcome

    def close(self) -> None:
        """End all processes and remove what they shared. A second call does nothing."""
        self._players.end()
        self._clean()

    def _send(self, orders: list[bytes]) -> None:
        try:
            self._players.send(orders)
        except BaseException:
            self.close()
            raise


def _meet(
    config: VZCoopConfig,
    seed: int,
    folder: Path,
    memory: MatchMemory,
    place: int,
    slot: int,
    sightings: bool,
    own_colours: bool,
    survey: Path | None,
) -> PlayerGroup:
    """Start all players and wait until they are in one game."""
    path = scenario.prepare(config.config_path, folder, config.sides)
    engine = _engine_that_dies_with_its_player(folder)
    for attempt in range(_TRIES):
        if config.port is not None:
            ports.require_free(config.port)
        port = config.port or ports.free_port()
        parts = [_part(config, index, seed, port, path, folder, engine) for index in range(config.num_players)]
        matches, slots = len(memory.facts), memory.slots
        parts = [part._replace(match=place, matches=matches, slots=slots, slot=slot) for part in parts]
        # Two alone play the same match to the byte, so that it can be seen that they still do. Where every engine has a
        # core, one would wait for the other for nothing.
        in_turn = config.num_players == 2 and matches * 2 > cores()
        parts = [part._replace(in_turn=in_turn) for part in parts]
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
        team_size=config.team_size if config.sides == 2 else None,
        last_tic=None if config.timelimit_minutes is None else round(config.timelimit_minutes * 60 * config.ticrate),
        sightings=False,
        own_colours=False,
        survey=None,
        skip=config.skip,
        in_turn=False,
        match=0,
        matches=1,
        slots=1,
        slot=0,
    )


def _game_args(config: VZCoopConfig, index: int, port: int) -> str:
    # Netmode 1 alone is reproducible, and it meets with two players at most. The dead come back by themselves after two
    # tics: asking for it would advance one engine alone.
    words = ["+viz_connect_timeout", "60", "+sv_forcerespawn", "1", "+viz_respawn_delay", "0"]
    if index == 0:
        netmode = 1 if config.num_players <= 2 else 0
        words += ["-host", str(config.num_players), "-port", str(port), "-netmode", str(netmode)]
        if config.sides == 2:  # whoever comes back does so far from the others
            words += ["-deathmatch", "+sv_spawnfarthest", "1"]
            words += ["+teamplay", "1"] if config.team_size > 1 else []
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


def _clean(owner: int, memory: MatchMemory | None, folder: Path) -> None:
    if memory:
        memory.close()
    if os.getpid() == owner:  # and not a fork of it
        shutil.rmtree(folder, ignore_errors=True)
