"""One player: a process of its own that runs one Doom engine and does what the match says, an action at a time.

    match  ── socket: 4 bytes per order ──►  player  ──►  engine (the player's child, same process group)
           ◄── socket: 1 byte per answer ──    ▲
           ◄── shared memory: facts, picture   └── socket: a byte after every tic ──►  player 0, which answers all

The engines of a netgame hang when one of them runs ahead, so every tic is a barrier. An order is for all tics of an
action, or for all that a new episode takes; the players keep the barrier among themselves, without the match.

An engine that cannot connect crashes its process, and one that lost a peer waits for ever; so no engine ever runs in
the trainer. The player's first thread obeys; a second one watches the socket, and when the match is gone it ends
player, engine and the engine's shared memory at once, whatever they are doing. That a *player* died or hangs is noticed
outside, by player_supervisor.
"""

from __future__ import annotations

import json
import math
import os
import re
import select
import shutil
import signal
import socket
import struct
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reelrl.act.doom import engine_turns
from reelrl.act.doom.engines import remove_shared_memory
from reelrl.act.doom.shared_memory import COLUMN, GAME_VARIABLES, MatchMemory, SightingsWriter

if TYPE_CHECKING:
    import vizdoom

# Orders: what to do, the action to hold, the slot that the picture goes to.
ORDER = struct.Struct("<cBH")
PLAY, NEW_EPISODE = b"p", b"n"
# Answers. WENT_ON is one byte; FAILED is followed by text and the end of the stream.
WENT_ON, GOAL_REACHED, TIME_OVER, FAILED = b".", b"g", b"t", b"!"

_TRIES = 3
_LOSE_ALL = "sv_cooploseinventory"
_DYING_TICS = 20  # at most; usually two
_SETTLING_TICS = 8  # a level's first tics, in which players do not move whatever they are told
_NO_ACTION = 0

# Every action presses one of these buttons, the first none.
BUTTONS = ("MOVE_FORWARD", "TURN_LEFT", "TURN_RIGHT", "MOVE_LEFT", "MOVE_RIGHT", "ATTACK", "USE")
# How an episode stands, as flags that the players of a match join.
_GOAL, _TIME = 1, 2
_ANSWERS = (WENT_ON, GOAL_REACHED, TIME_OVER, GOAL_REACHED)
_PRESSED = [[0] * len(BUTTONS), *([float(each == button) for each in BUTTONS] for button in BUTTONS)]


class Part(NamedTuple):
    """What a player is started with."""

    player: int
    players: int
    scenario: str
    folder: str
    """The match's; the player works in a folder below it, because engines write to where they are."""
    engine: str
    game_args: str
    seed: int
    resolution: str
    picture_size: tuple[int, int]
    shrink: bool
    mask_hud: bool
    window_visible: bool
    console_enabled: bool
    ticrate: int
    team_size: int | None
    """Players of each of two sides."""
    own_colours: bool
    """Wear the colour set that has the player's number."""
    last_tic: int | None
    """When time is over, beside the scenario's own limit."""
    sightings: bool
    """Tell who is on the screen, and player 0 where all enemies are."""
    survey: str | None
    """A file to write the map's sectors to when the game has started."""
    skip: int
    """Tics that an action is held."""
    in_turn: bool
    """The two engines run one after the other in every tic."""
    match: int
    """Which of those that share the memory."""
    matches: int
    slots: int
    slot: int
    """That its first picture goes to."""


class Lockstep:
    """The barrier between the players of a match after every tic. Player 0 hears everybody and answers everybody.

    A mate that is gone is waited for: the match notices, names it and ends this process.
    """

    def __init__(self, player: int, mates: list[socket.socket]) -> None:
        self._is_first, self._mates = player == 0, mates

    def turns(self) -> engine_turns.Turns:
        """Those of this player's engine, which has started, and of its only mate's."""
        return engine_turns.arrange(self._mates[0], engine_turns.engine_socket(), is_host=self._is_first)

    def any(self, flag: int) -> int:
        """The flags of all players in one, when all of them are here."""
        if self._is_first:
            for mate in self._mates:
                flag |= _heard(mate)
        for mate in self._mates:
            mate.send(bytes((flag,)))
        return flag if self._is_first else _heard(self._mates[0])


class EngineDriver:
    """Drives one engine by orders, and puts its facts and pictures into the shared memory."""

    def __init__(self, part: Part, memory: MatchMemory, lockstep: Lockstep) -> None:
        import vizdoom

        self._part, self._lockstep = part, lockstep
        self._variables = [getattr(vizdoom.GameVariable, name) for name in GAME_VARIABLES]
        self._game = _game(part)
        sightings = SightingsWriter(all_enemies=not part.player) if part.sightings else None
        if sightings:
            sightings.prepare(self._game)
        # Time is kept here: the engine would stop at its limit, and nobody could die to begin anew in full health.
        self._last_tic = min(self._game.get_episode_timeout() or math.inf, part.last_tic or math.inf)
        self._game.set_episode_timeout(0)
        self._game.init()
        self._turns = lockstep.turns() if part.in_turn else engine_turns.Turns()
        # Not known before: joiners race for their numbers.
        number = int(self._game.get_game_variable(vizdoom.GameVariable.PLAYER_NUMBER))
        memory.numbers[part.match, part.player] = number
        self._facts = memory.facts[part.match, number]
        self._pictures = memory.pictures[:, part.match, number]
        self._sightings, self._sighting_rows = sightings, memory.sightings[part.match, number]
        self._slot = part.slot  # of the newest picture
        self._tic = self._game.get_episode_time()
        if part.team_size:
            self._game.send_game_command(f"team {number // part.team_size}")
        if part.own_colours:
            self._game.send_game_command(f"colorset {number}")
        if part.survey:
            write_sectors(self._game, Path(part.survey))
        self._show(part.slot)
        self._settle(part.slot)
        self._full_health = self._fact("HEALTH")

    def obey(self, order: bytes, action: int, slot: int) -> bytes:
        """Do one order; the answer tells whether the episode goes on."""
        outcome = self._play(action, slot) if order == PLAY else self._new_episode(slot)
        if self._slot != slot:  # there is no new picture, as between levels: the last one stays
            self._pictures[slot] = self._pictures[self._slot]
            self._slot = slot
        return _ANSWERS[outcome]

    def _play(self, action: int, slot: int) -> int:
        """Hold an action for all its tics, or until the episode is over for somebody."""
        for tic in range(self._part.skip):
            with self._turns:
                outcome = self._advance(action, slot, show=tic == self._part.skip - 1)
            self._outcome = self._lockstep.any(outcome)
            if self._outcome:
                break
        return self._outcome

    def _new_episode(self, slot: int) -> int:
        """Begin anew; chance goes on from where it was."""
        self._turns.end()
        if self._outcome & _GOAL:
            self._begin(slot)  # nobody can die in a level that is over
        # Co-operative games keep health and weapons from level to level; only those who died get new ones. One who
        # came back quickly may have been hurt again before the others were dead.
        for _ in range(_TRIES):
            self._die(slot)
            self._begin(slot)
            if not self._lockstep.any(self._fact("HEALTH") != self._full_health):
                break
        return self._outcome

    def _begin(self, slot: int) -> None:
        self._game.new_episode()
        if self._part.player == 0:
            self._game.send_game_command(f"{_LOSE_ALL} 0")
        self._lockstep.any(self._passed(0, slot, show=True))
        self._settle(slot)

    def _settle(self, slot: int) -> None:
        for tic in range(_SETTLING_TICS):
            self._lockstep.any(self._advance(_NO_ACTION, slot, show=tic == _SETTLING_TICS - 1))
        self._outcome = 0

    def _die(self, slot: int) -> None:
        deaths = self._fact("DEATHCOUNT")
        if self._part.player == 0:  # whoever dies here comes back with the first bullets, and not with what was left
            self._game.send_game_command(f"{_LOSE_ALL} 1")
        self._game.send_game_command("kill")
        for _ in range(_DYING_TICS):
            self._advance(_NO_ACTION, slot, show=True)
            if not self._lockstep.any(self._fact("DEATHCOUNT") <= deaths and not self._fact("DEAD")):
                break

    def _advance(self, action: int, slot: int, *, show: bool) -> int:
        """One tic; whether the episode is over after it."""
        if not self._game.is_episode_finished():
            self._game.set_action(_PRESSED[action])
            self._game.advance_action(1, show)
        return self._passed(self._tic, slot, show=show)

    def _passed(self, tic: int, slot: int, *, show: bool) -> int:
        game = self._game
        self._tic = game.get_episode_time() or tic + 1  # there is no time between levels
        outcome = _GOAL if game.is_episode_finished() else _TIME if self._tic > self._last_tic else 0
        if show or outcome:
            self._show(slot)
        return outcome

    def _fact(self, name: str) -> float:
        return float(self._facts[COLUMN[name]])

    def _show(self, slot: int) -> None:
        """Publish the facts, and the picture where there is a new one."""
        game = self._game
        self._facts[:-2] = [game.get_game_variable(variable) for variable in self._variables]
        self._facts[-2:] = self._tic, game.get_total_reward()
        state = game.get_state()
        if state is None:
            return
        self._slot = slot
        if self._part.shrink:
            import cv2

            height, width = self._part.picture_size
            small = cv2.resize(state.screen_buffer, (width, height), interpolation=cv2.INTER_AREA)
            self._pictures[slot] = small.transpose(2, 0, 1)
        else:
            self._pictures[slot] = state.screen_buffer
        if self._sightings:
            self._sightings.publish(state, self._sighting_rows)


def _game(part: Part) -> vizdoom.DoomGame:
    import vizdoom

    game = vizdoom.DoomGame()
    game.load_config(part.scenario)
    game.set_vizdoom_path(part.engine)
    game.set_doom_config_path(str(Path.cwd() / "engine.ini"))  # all engines would write one file otherwise
    game.set_mode(vizdoom.Mode.PLAYER)
    game.set_sound_enabled(False)  # OpenAL aborts now and then where there is no device
    game.set_audio_buffer_enabled(False)
    game.set_window_visible(part.window_visible)
    game.set_console_enabled(part.console_enabled)
    game.set_screen_resolution(getattr(vizdoom.ScreenResolution, part.resolution))
    # Planes are what learners want; shrinking wants them interleaved.
    game.set_screen_format(vizdoom.ScreenFormat.RGB24 if part.shrink else vizdoom.ScreenFormat.CRCGCB)
    game.set_available_buttons([getattr(vizdoom.Button, name) for name in BUTTONS])
    game.set_sectors_info_enabled(part.survey is not None)
    game.set_ticrate(part.ticrate)
    game.set_seed(part.seed)
    if part.mask_hud:
        game.set_render_hud(False)
        game.set_render_minimal_hud(False)
        game.set_render_messages(False)
    game.add_game_args(part.game_args)
    return game


def write_sectors(game: vizdoom.DoomGame, path: Path) -> None:
    """The map's sectors: floor and ceiling heights, and lines as [x1, y1, x2, y2, whether it blocks]."""
    state = game.get_state()
    sectors = [
        {
            "floor": sector.floor_height,
            "ceiling": sector.ceiling_height,
            "lines": [[line.x1, line.y1, line.x2, line.y2, line.is_blocking] for line in sector.lines],
        }
        for sector in state.sectors or ()
    ]
    path.write_text(json.dumps(sectors))


def _watch(connection: socket.socket, part: Part, memory: MatchMemory) -> None:
    """Tell the match the engine's id as soon as there is one, and end everything when the match is gone."""
    gone = select.poll()
    gone.register(connection, select.POLLRDHUP)
    identity = ""
    # The engine is found in this process's memory map: ViZDoom tells its id only when the start has succeeded.
    while not gone.poll(None if identity else 10):
        engine_file = re.search(r"/dev/shm/ViZDoom(?:MQCtr|MQDoom|SM)(\w+)", Path("/proc/self/maps").read_text())
        if engine_file and not identity:
            identity = engine_file[1]
            memory.set_engine_id(part.match, part.player, identity)
    if identity:
        remove_shared_memory(identity)
    shutil.rmtree(part.folder, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


def _heard(mate: socket.socket) -> int:
    with suppress(OSError):
        if said := mate.recv(1):
            return said[0]
    threading.Event().wait()
    raise AssertionError("not reached")


def main(connection_fd: int, memory_fd: int, mate_fds: list[int], part: Part) -> None:
    """The player's life."""
    # Linux sends this to groups with a stopped process whose parent died; the watcher ends them with less left behind.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # The engine must not inherit these: it would hold them open and hide that this process has died.
    for descriptor in (connection_fd, memory_fd, *mate_fds):
        os.set_inheritable(descriptor, False)
    connection = socket.socket(fileno=connection_fd)
    memory = MatchMemory(
        part.players,
        *part.picture_size,
        memory_fd,
        sightings=part.sightings,
        matches=part.matches,
        slots=part.slots,
    )
    threading.Thread(target=_watch, args=(connection, part, memory), daemon=True).start()
    with suppress(BrokenPipeError, ConnectionResetError):
        try:
            lockstep = Lockstep(part.player, [socket.socket(fileno=descriptor) for descriptor in mate_fds])
            driver = EngineDriver(part, memory, lockstep)
            connection.send(WENT_ON)
            while order := connection.recv(ORDER.size):
                connection.send(driver.obey(*ORDER.unpack(order)))
        except Exception as error:  # noqa: BLE001  the match raises it again
            connection.sendall(FAILED + f"{type(error).__name__}: {error}".encode())
            connection.shutdown(socket.SHUT_WR)
    threading.Event().wait()  # the watcher ends this process


def _arguments(words: list[str]) -> tuple[int, int, list[int], Any]:
    connection_fd, memory_fd, mate_fds, part = words
    return int(connection_fd), int(memory_fd), json.loads(mate_fds), Part(**json.loads(part))


if __name__ == "__main__":
    main(*_arguments(sys.argv[1:]))
