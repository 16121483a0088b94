"""Scenarios: found by name or path, and looked into before an engine that would crash on them is started."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory

from reelrl.act.doom.scenarios import bystanders, cloister, duel, gate, haunted_rooms, hiders, nine_rooms, wad
from reelrl.errors import ConfigError, ContentError, MissingExtra
from reelrl.file_trust import refuse_foreign
from reelrl.names import did_you_mean

OURS = {
    "nine_rooms": nine_rooms,
    "bystanders": bystanders,
    "hiders": hiders,
    "gate": gate,
    "duel": duel,
    "haunted_rooms": haunted_rooms,
    "cloister": cloister,
}


def prepare(name: str, folder: Path, sides: int = 1) -> Path:
    """The .cfg file of a scenario, checked; one of ours is written to `folder` first."""
    if name in OURS:
        ours = OURS[name]
        (folder / f"{name}.wad").write_bytes(wad.pack(ours.lumps()))
        path = folder / f"{name}.cfg"
        path.write_text(ours.SETTINGS)
        _check_starts(path, sides)
        return path
    return _checked(name, sides)


def require(name: str, sides: int = 1) -> None:
    """Refuse a scenario that is not there or cannot be played by so many sides."""
    with TemporaryDirectory() as folder:
        prepare(name, Path(folder), sides)


def absolute(name: str) -> str:
    """The scenario as a process with another working folder finds it."""
    path = Path(name).expanduser()
    return str(path.resolve()) if name not in OURS and path.is_file() else name


def _checked(name: str, sides: int) -> Path:
    path = _find(name)
    if path.parent != _scenarios_of_vizdoom().resolve():
        refuse_foreign({"extra_game_args": _settings(path).get("game_args")}, path)
    _check_starts(path, sides)
    return path


def _find(name: str) -> Path:
    theirs = _scenarios_of_vizdoom()
    for path in (Path(name).expanduser(), theirs / name, theirs / f"{name}.cfg"):
        if path.is_file():
            return path.resolve()
    known = [*OURS, *(path.stem for path in theirs.glob("*.cfg"))]
    raise ContentError(f"there is no scenario {name!r}, neither as a file nor by name{did_you_mean(name, known)}")


def _check_starts(path: Path, sides: int) -> None:
    settings = _settings(path)
    named = settings.get("doom_scenario_path")
    if not named:
        return  # a map of the game itself; those all have starts
    file = _beside(path, named)
    if file is None:
        raise ContentError(f"{path} wants the scenario {named!r}, which is not beside it; put it there")
    map_name = settings.get("doom_map", "map01")
    starts = wad.starts(file, map_name)
    if starts is None:
        raise ConfigError(f"{file} has no map {map_name!r}; correct doom_map in {path}")
    if sides == 2 and wad.DEATHMATCH_START not in starts:
        raise ConfigError(
            f"{map_name} of {file.name} has no deathmatch starts for two sides; "
            f"add things of type {wad.DEATHMATCH_START}, use the scenario duel, or set sides to 1"
        )
    if sides == 1 and not starts & set(wad.PLAYER_STARTS):
        for_two = "set sides to 2, " if starts else ""
        raise ConfigError(
            f"{map_name} of {file.name} has no player starts for a co-operative game, and the engine would crash; "
            f"{for_two}add things of type 1 to 4 or use another scenario"
        )


def _settings(path: Path) -> dict[str, str]:
    """Single values of a .cfg file. ViZDoom takes any case, with or without underscores; these come out with them."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ContentError(f"cannot read {path} as a scenario's settings: {error}") from error
    values = {}
    for key, value in re.findall(r"^\s*(\w+)\s*\+?=\s*([^\s{#][^#\n]*)", text, re.MULTILINE):
        values[key.lower().replace("_", "")] = value.strip()
    known = ("doom_scenario_path", "doom_map", "game_args")
    return {key: values[plain] for key in known if (plain := key.replace("_", "")) in values}


def _beside(path: Path, named: str) -> Path | None:
    places = (path.parent / named, Path(named), _scenarios_of_vizdoom() / named)
    return next((place for place in places if place.is_file()), None)


def _scenarios_of_vizdoom() -> Path:
    try:
        import vizdoom
    except ImportError as error:
        raise MissingExtra("vizdoom", "doom") from error
    return Path(vizdoom.scenarios_path)
