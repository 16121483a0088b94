"""How much happens in matches: figures that show whether who is where is an open question."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from reelrl.act.recording.labels import Labels
    from reelrl.act.recording.maps import MapPlan


def describe(plan: MapPlan, matches: Sequence[Labels]) -> dict[str, str]:
    """Word -> figures, over all rows of the matches."""
    players = [np.where(each.alive, _places(plan, each.position), -1) for each in matches]
    enemies = [np.where(each.enemy_alive, _places(plan, each.enemy_position), -1) for each in matches]
    visited = np.mean([len(set(column) - {-1}) for table in players for column in table.T])
    mate, enemy = _mean(matches, "sees_mate"), _mean(matches, "sees_enemy")
    return {
        "players by place": _shares(plan, players),
        "enemies by place": _shares(plan, enemies),
        "places at a time": f"{_at_a_time(players):.1f} with players, {_at_a_time(enemies):.1f} with enemies",
        "places in a match": f"{visited:.1f} a player",
        "on screen": f"a mate {mate:.0%}, an enemy {enemy:.0%} of the time",
        "alive": f"{np.mean([each.alive.mean() for each in matches]):.0%}",
    }


def _places(plan: MapPlan, position: NDArray[np.float32]) -> NDArray[np.int64]:
    return plan.place_of(position[..., 0], position[..., 1])


def _shares(plan: MapPlan, tables: Sequence[NDArray[np.int64]]) -> str:
    there = np.concatenate([table[table >= 0] for table in tables])
    shares = np.bincount(there, minlength=len(plan.places)) / max(len(there), 1)
    return ", ".join(f"{name} {share:.0%}" for name, share in zip(plan.places, shares, strict=True))


def _at_a_time(tables: Sequence[NDArray[np.int64]]) -> float:
    return float(np.mean([len(set(row) - {-1}) for table in tables for row in table]))


def _mean(matches: Sequence[Labels], name: str) -> float:
    return float(np.mean([getattr(each, name).any(axis=-1)[each.alive].mean() for each in matches]))
