"""What a recording wants to know beside pictures and facts: where the enemies are, and who is truly on whose screen.

A sighting is a row of numbers: what it is, the engine's id of it, and where it stands. The engine tells whether a thing
has at least one pixel on the screen, so nobody is "seen" through a wall. Ids differ between the engines of one match,
except over time within one; across engines a thing is known by where it stands.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import vizdoom
    from numpy.typing import NDArray

# What a row tells; 0 is an empty row. All enemies, dead or alive, are told by one player alone: each engine knows them.
ENEMY, DEAD_ENEMY, ENEMY_ON_SCREEN, MATE_ON_SCREEN = 1, 2, 3, 4
COLUMNS = ("kind", "id", "x", "y", "z")
MOST = 512

_ENGINES_NAMES = {"Monster": ENEMY_ON_SCREEN, "Player": MATE_ON_SCREEN}


class Sightings:
    """Writes what one engine tells into `rows` (MOST, columns)."""

    def __init__(self, rows: NDArray[np.float64], *, tells_enemies: bool) -> None:
        self._rows, self._tells_enemies = rows, tells_enemies
        self._enemies: dict[int, str] = {}  # ids and names while alive: the dead are named like any other gore

    def ask(self, game: vizdoom.DoomGame) -> None:
        """Turn on what is needed, before the game starts."""
        game.set_labels_buffer_enabled(True)
        game.set_objects_info_enabled(self._tells_enemies)
        game.set_render_weapon(False)

    def publish(self, state: vizdoom.GameState) -> None:
        """Replace the rows by what is there now."""
        found = [
            (kind, each.object_id, each.object_position_x, each.object_position_y, each.object_position_z)
            for each in state.labels or ()
            if (kind := _ENGINES_NAMES.get(each.object_category))
        ]
        self._enemies |= {each.id: each.name for each in state.objects or () if each.category == "Monster"}
        enemies = [each for each in state.objects or () if each.id in self._enemies]
        # By name, so that one that looks different from the others has the same place in the list in every match.
        for each in sorted(enemies, key=lambda each: (self._enemies[each.id], each.id)):
            kind = ENEMY if each.category == "Monster" else DEAD_ENEMY
            found.append((kind, each.id, each.position_x, each.position_y, each.position_z))
        if len(found) > MOST:
            raise ValueError(f"{len(found)} enemies and players are there, {MOST} can be recorded; use a smaller map")
        self._rows[: len(found)] = found or 0
        self._rows[len(found) :] = 0


def survey(game: vizdoom.DoomGame, path: Path) -> None:
    """Write the map's sectors: floor and ceiling heights, and lines as [x1, y1, x2, y2, whether it blocks]."""
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
