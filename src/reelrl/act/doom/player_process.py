"""One player: a process of its own that runs one Doom engine and does what the match says, tic by tic.

    match  ── socket: 2 bytes per order ──►  player  ──►  engine (the player's child, same process group)
           ◄── socket: 1 byte per answer ──
           ◄── shared memory: facts and picture ──

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
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reelrl.act.doom.engines import remove_shared_memory
from reelrl.act.doom.shared_memory import GAME_VARIABLES, MatchMemory, SightingsWriter

if TYPE_CHECKING:
    import vizdoom

# Orders. HOLD advances a tic without drawing it; SHOW draws and publishes it; the second byte is the action.
HOLD, SHOW, DIE, NEW_EPISODE = b"h", b"s", b"d", b"n"
# Answers. WENT_ON is one byte; FAILED is followed by text and the end of the stream.
WENT_ON, GOAL_REACHED, TIME_OVER, FAILED = b".", b"g", b"t", b"!"

# Every action presses one of these buttons, the first none.
BUTTONS = ("MOVE_FORWARD", "TURN_LEFT", "TURN_RIGHT", "MOVE_LEFT", "MOVE_RIGHT", "ATTACK", "USE")
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
    own_colours: bool
    """Wear the colour set that has the player's number."""
    last_tic: int | None
    """When time is over, beside the scenario's own limit."""
    sightings: bool
    """Tell who is on the screen, and player 0 where all enemies are."""
    survey: str | None
    """A file to write the map's sectors to when the game has started."""


class EngineDriver:
    """Drives one engine by orders, and puts its facts and pictures into the shared memory."""

    def __init__(self, part: Part, memory: MatchMemory) -> None:
        import vizdoom

        self._part = part
        self._facts, self._picture = memory.facts[part.player], memory.pictures[part.player]
        self._variables = [getattr(vizdoom.GameVariable, name) for name in GAME_VARIABLES]
        self._game = _game(part)
        self._sightings = (
            SightingsWriter(memory.sightings[part.player], all_enemies=not part.player) if part.sightings else None
        )
        if self._sightings:
            self._sightings.prepare(self._game)
        # Time is kept here: the engine would stop at its limit, and nobody could die to begin anew in full health.
        self._last_tic = min(self._game.get_episode_timeout() or math.inf, part.last_tic or math.inf)
        self._game.set_episode_timeout(0)
        self._game.init()
        self._tic = self._game.get_episode_time()
        if part.own_colours:
            # Not known before: joiners race for their numbers.
            number = int(self._game.get_game_variable(vizdoom.GameVariable.PLAYER_NUMBER))
            self._game.send_game_command(f"colorset {number}")
        if part.survey:
            write_sectors(self._game, Path(part.survey))
        self._show()

    def obey(self, order: bytes, action: int) -> bytes:
        """Do one order; the answer tells whether the episode goes on."""
        game = self._game
        if order == DIE:
            game.send_game_command("kill")
            return WENT_ON
        if order == NEW_EPISODE:
            game.new_episode()
            self._tic = 0
        elif not game.is_episode_finished():
            game.set_action(_PRESSED[action])
            game.advance_action(1, order == SHOW)
        self._tic = game.get_episode_time() or self._tic + 1  # there is no time between levels
        answer = GOAL_REACHED if game.is_episode_finished() else TIME_OVER if self._tic > self._last_tic else WENT_ON
        if order != HOLD or answer != WENT_ON:
            self._show()
        return answer

    def _show(self) -> None:
        """Publish the facts, and the picture where there is a new one."""
        game = self._game
        self._facts[:-2] = [game.get_game_variable(variable) for variable in self._variables]
        self._facts[-2:] = self._tic, game.get_total_reward()
        state = game.get_state()
        if state is None:
            return
        if self._part.shrink:
            import cv2

            height, width = self._part.picture_size
            small = cv2.resize(state.screen_buffer, (width, height), interpolation=cv2.INTER_AREA)
            self._picture[:] = small.transpose(2, 0, 1)
        else:
            self._picture[:] = state.screen_buffer
        if self._sightings:
            self._sightings.publish(state)


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
            memory.set_engine_id(part.player, identity)
    if identity:
        remove_shared_memory(identity)
    shutil.rmtree(part.folder, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


def main(connection_fd: int, memory_fd: int, part: Part) -> None:
    """The player's life."""
    # Linux sends this to groups with a stopped process whose parent died; the watcher ends them with less left behind.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # The engine must not inherit these: it would hold them open and hide that this process has died.
    for descriptor in (connection_fd, memory_fd):
        os.set_inheritable(descriptor, False)
    connection = socket.socket(fileno=connection_fd)
    memory = MatchMemory(part.players, *part.picture_size, memory_fd, sightings=part.sightings)
    threading.Thread(target=_watch, args=(connection, part, memory), daemon=True).start()
    with suppress(BrokenPipeError, ConnectionResetError):
        try:
            driver = EngineDriver(part, memory)
            connection.send(WENT_ON)
            while order := connection.recv(2):
                connection.send(driver.obey(order[:1], order[1]))
        except Exception as error:  # noqa: BLE001  the match raises it again
            connection.sendall(FAILED + f"{type(error).__name__}: {error}".encode())
            connection.shutdown(socket.SHUT_WR)
    threading.Event().wait()  # the watcher ends this process


def _arguments(words: list[str]) -> tuple[int, int, Any]:
    connection_fd, memory_fd, part = words
    return int(connection_fd), int(memory_fd), Part(**json.loads(part))


if __name__ == "__main__":
    main(*_arguments(sys.argv[1:]))
