"""Pictures of a watched match: all views, the true map, and the places where a net thinks that somebody is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reelrl.content.pictures import caption

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from reelrl.act.location.demo import WatchedMatch
    from reelrl.act.recording.labels import Labels
    from reelrl.content.pictures import Colour, Picture

_ZOOM, _CAPTION, _MARGIN = 2, 26, 6
_GROUND, _INK, _SOFT = (18, 20, 24), (233, 231, 226), (150, 156, 166)
_PLAYER, _WATCHER, _ENEMY = (40, 90, 220), (20, 20, 20), (210, 30, 30)
_DOWN = 0.35  # how bright the view of a dead player is


def belief_pictures(watched: WatchedMatch, watcher: int, rows: range) -> Iterator[Picture]:
    """One picture for each row of a match of four: views to the left, maps to the right."""
    match = watched.data.match(watched.info.id)
    seen = [match.frames(player, rows) for player in range(watched.info.players)]
    for number, row in enumerate(rows):
        alive = match.labels.alive[row]
        views = [_view(each[number], player, alive=bool(alive[player])) for player, each in enumerate(seen)]
        maps = _maps(watched, match.labels, row, watcher, side=_ZOOM * seen[0].shape[1])
        yield np.concatenate([_line([*views[:2], *maps[:2]]), _line([*views[2:4], *maps[2:]])])


def _maps(watched: WatchedMatch, labels: Labels, row: int, watcher: int, side: int) -> list[Picture]:
    """The truth, and three beliefs with the truth as dots; a belief holds until the next moment."""
    number = int(np.searchsorted(watched.moments.row, row, side="right")) - 1
    dots = _dots(labels, row, watcher)
    players, enemies = dots[: labels.alive.shape[1]], dots[labels.alive.shape[1] :]
    # Who lies dead sees nothing, and the net is not asked.
    by_one = watched.by_one if watched.moments.present[number, watcher] else None
    shown = [
        ("where everybody is", None, dots),
        ("enemies, by all views", watched.by_all["enemies_now"][number], enemies),
        ("mates, by the first view", by_one and by_one["mates_now"][number], players),
        ("enemies, by the first view", by_one and by_one["enemies_now"][number], enemies),
    ]
    return [
        _pane(title, "", watched.plan.draw(size=side, shades=shades, dots=[dot for dot in there if dot], names=False))
        for title, shades, there in shown
    ]


def _dots(labels: Labels, row: int, watcher: int) -> list[tuple[float, float, Colour] | None]:
    """Players, then enemies; None for who is dead."""
    dots: list[tuple[float, float, Colour] | None] = []
    for player, alive in enumerate(labels.alive[row]):
        x, y = labels.position[row, player, :2]
        dots.append((float(x), float(y), _WATCHER if player == watcher else _PLAYER) if alive else None)
    for enemy, alive in enumerate(labels.enemy_alive[row]):
        x, y = labels.enemy_position[row, enemy, :2]
        dots.append((float(x), float(y), _ENEMY) if alive else None)
    return dots


def _view(picture: NDArray[np.uint8], player: int, *, alive: bool) -> Picture:
    large = picture.repeat(_ZOOM, 0).repeat(_ZOOM, 1)
    shown = large if alive else (large * _DOWN).astype(np.uint8)
    return _pane(f"player {player + 1}", "" if alive else "down", shown)


def _pane(words: str, more: str, picture: Picture) -> Picture:
    strip = caption((_CAPTION, picture.shape[1]), words, more, ground=_GROUND, left=_INK, right=_SOFT)
    return np.concatenate([strip, picture])


def _line(panes: list[Picture]) -> Picture:
    height = max(len(pane) for pane in panes)
    gap = np.full((height, _MARGIN, 3), _GROUND, np.uint8)
    parts: list[Picture] = []
    for pane in panes:
        low = np.full((height - len(pane), pane.shape[1], 3), _GROUND, np.uint8)
        parts += [gap, np.concatenate([pane, low])]
    return np.concatenate(parts[1:], axis=1)
