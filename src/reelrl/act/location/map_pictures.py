"""Predictions drawn on the map: what one player saw, where everybody was, and what the net made of it.

Players are blue and the one who watches is white; enemies are red. The more orange a place, the surer the net.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reelrl.act.location.samples import occupied

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from reelrl.act.location.contestants import TrainedNet
    from reelrl.act.location.samples import Moments

    Picture = NDArray[np.uint8]

TITLES = ("one view", "truth", "mates, one view", "enemies, one view", "mates, all views", "enemies, all views")
_SIZE = 220  # of a map
_GAP = 8
_PLAYER, _WATCHER, _ENEMY = (40, 90, 220), (255, 255, 255), (210, 30, 30)
_PAPER, _INK = (250, 249, 246), (60, 60, 60)


def moments_to_show(moments: Moments, count: int) -> NDArray[np.int64]:
    """Some moments with everybody alive and an enemy somewhere, of different matches, in equal steps through them."""
    full = np.flatnonzero(moments.present.all(1) & (moments.enemy_places >= 0).any(1))
    if not len(full):
        full = np.arange(len(moments))
    matches = np.unique(moments.match[full])
    shown = matches[np.linspace(0, len(matches) - 1, min(count, len(matches))).round().astype(int)]
    return np.array([(rows := full[moments.match[full] == match])[len(rows) // 2] for match in shown])


def prediction_sheet(trained: TrainedNet, split: str, count: int = 3) -> Picture:
    """One line per moment under the TITLES."""
    everyone = trained.scenes.moments[split]
    chosen = everyone.take(moments_to_show(everyone, count))
    watcher = chosen.present.argmax(1)
    one = np.eye(chosen.present.shape[1], dtype=bool)[watcher]
    answers = [trained.answer(split, chosen, pov) for pov in (one, chosen.present)]
    lines = [_title_line()]
    for number in range(len(chosen)):
        pictures = [_view(trained, chosen, number, int(watcher[number])), _truth(trained, chosen, number, watcher)]
        shades = [said[head][number] for said in answers for head in ("mates_now", "enemies_now")]
        pictures += [trained.scenes.plan.draw(size=_SIZE, shades=each, names=False) for each in shades]
        lines.append(_line(pictures))
    return np.concatenate(lines)


def _view(trained: TrainedNet, moments: Moments, number: int, player: int) -> Picture:
    import cv2

    info = moments.matches[moments.match[number]]
    frame = trained.scenes.data.match(info.id).frames(player, np.array([moments.row[number]]))[0]
    height = round(_SIZE * frame.shape[0] / frame.shape[1])
    return np.asarray(cv2.resize(frame, (_SIZE, height), interpolation=cv2.INTER_AREA), np.uint8)


def _truth(trained: TrainedNet, moments: Moments, number: int, watcher: NDArray[np.int64]) -> Picture:
    plan = trained.scenes.plan
    labels = trained.scenes.data.match(moments.matches[moments.match[number]].id).labels
    row = moments.row[number]
    dots = [(*position[:2], _ENEMY) for position in labels.enemy_position[row][labels.enemy_alive[row]]]
    for player in np.flatnonzero(labels.alive[row]):
        colour = _WATCHER if player == watcher[number] else _PLAYER
        dots.append((*labels.position[row, player, :2], colour))
    shades = 0.15 * occupied(moments.player_places[number], len(plan.places))
    return plan.draw(size=_SIZE, shades=shades, dots=dots, names=False)


def _line(pictures: Sequence[Picture]) -> Picture:
    """Side by side, each in the middle of its cell."""
    height = max(picture.shape[0] for picture in pictures) + _GAP
    line = np.full((height, len(pictures) * (_SIZE + _GAP) + _GAP, 3), _PAPER, np.uint8)
    for column, picture in enumerate(pictures):
        top, left = (height - picture.shape[0]) // 2, _GAP + column * (_SIZE + _GAP)
        line[top : top + picture.shape[0], left : left + picture.shape[1]] = picture
    return line


def _title_line() -> Picture:
    import cv2

    line = _line([np.full((22, _SIZE, 3), _PAPER, np.uint8)] * len(TITLES))
    for column, title in enumerate(TITLES):
        place = (_GAP + column * (_SIZE + _GAP), 20)
        cv2.putText(line, title, place, cv2.FONT_HERSHEY_SIMPLEX, 0.5, _INK, 1, cv2.LINE_AA)
    return line
