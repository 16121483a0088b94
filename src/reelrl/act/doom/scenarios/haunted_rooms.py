"""The nine rooms again, made to be recorded: players start all over them, and wanderers never stop coming."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelrl.act.doom.scenarios import nine_rooms, wanderers

if TYPE_CHECKING:
    from reelrl.act.doom.scenarios import wad

WANDERERS = 5
STARTS = ("south-west", "north-east", "north-west", "south-east", "south", "north", "west", "east")
SETTINGS = wanderers.settings("haunted_rooms")


def places() -> dict[str, wanderers.Box]:
    """Rooms by name."""
    return {name: nine_rooms.room(index)[:4] for index, name in enumerate(nine_rooms.PLACES)}


def lumps() -> list[wad.Lump]:
    """The scenario's WAD, as lumps."""
    return wanderers.lumps(nine_rooms.floors(), places(), STARTS, WANDERERS)
