"""What embeddings know of games' states, beside representations that learned nothing: rows, and tables of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from reelrl.content.feeds.atari_state import CATEGORIES
from reelrl.report.intervals import mean_interval
from reelrl.runs.progress import spaced
from reelrl.see.measures.state_probe import BASELINES, baseline_features, embedding, probe_state, state_frames
from reelrl.see.measures.trained import load_trained

if TYPE_CHECKING:
    from collections.abc import Sequence

    Row = dict[str, Any]

HOW = (
    "Weighted F1 of linear classifiers on unseen episodes: the mean over a category's labels in a game, then over the "
    "games that have any; R2 is that of a ridge on the coordinates. Against PCA: the difference of the games' mean F1, "
    "with a 95 % bootstrap interval over games."
)
PCA = "PCA"
_HEADS = ("representation", "frames", "games", *CATEGORIES, "all labels", "against PCA", "R2 of places")


class StateTask(NamedTuple):
    """All that is asked about one game: weights as (name, frames learned, path)."""

    game: str
    models: tuple[tuple[str, int | None, str], ...]
    frames: int
    device: str


def tasks_of(paths: Sequence[str], frames: int, device: str, source: str | None = None) -> list[StateTask]:
    """A task per game, of weights that `reel compare autoencoder --keep` saved, or of runs."""
    by_game: dict[str, list[tuple[str, int | None, str]]] = {}
    for path in paths:
        game, name, learned = _meant(path, source)
        by_game.setdefault(game, []).append((name, learned, path))
    return [StateTask(game, tuple(models), frames, device) for game, models in by_game.items()]


def _meant(path: str, source: str | None) -> tuple[str, str, int | None]:
    """Game, contestant and frames learned: 10000/Breakout-default-0.safetensors says them."""
    file = Path(path)
    game, _, rest = file.stem.partition("-")
    if file.suffix == ".safetensors" and rest and source is None:
        learned = file.parent.name
        return game, rest.rpartition("-")[0] or rest, int(learned) if learned.isdecimal() else None
    trained = load_trained(path, source=source)
    return trained.source.removeprefix("ale:"), trained.name, trained.model.frames_seen or None


def examine_state(task: StateTask) -> list[Row]:
    """A row per representation and label of one game."""
    frames = state_frames(task.game, task.frames)
    models = [
        (name, learned, load_trained(path, source=f"ale:{task.game}").model.to(task.device))
        for name, learned, path in task.models
    ]
    rows: list[Row] = []
    plain = baseline_features(frames, task.device, models[0][2])
    for name in BASELINES:
        rows += _rows(task, name, None, probe_state(plain.get(name), frames))
    plain.clear()
    for name, learned, model in models:
        rows += _rows(task, name, learned, probe_state(embedding(model, frames, task.device), frames))
    return rows


def _rows(task: StateTask, name: str, learned: int | None, scores: Sequence[Row]) -> list[Row]:
    return [{"game": task.game, "representation": name, "frames": learned, **score} for score in scores]


def markdown(rows: Sequence[Row]) -> str:
    """A line per representation and number of frames learned."""
    who = list(dict.fromkeys((row["representation"], row["frames"]) for row in rows))
    lines = [list(_HEADS), ["---", *("---:" for _ in _HEADS[1:])]]
    lines += [_line(rows, name, learned) for name, learned in who]
    return HOW + "\n\n" + "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def _line(rows: Sequence[Row], name: str, learned: int | None) -> list[str]:
    own = [row for row in rows if (row["representation"], row["frames"]) == (name, learned)]
    means, pca = per_game(own), per_game([row for row in rows if row["representation"] == PCA])
    shared = sorted(means.keys() & pca.keys())
    against = "-"
    if name != PCA and len(shared) > 1:
        gap = mean_interval(np.array([means[game] - pca[game] for game in shared]))
        against = f"{gap.mean:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]"
    figures = [_mean(per_game([row for row in own if row["category"] == each])) for each in CATEGORIES]
    return [
        name,
        "-" if learned is None else spaced(learned),
        str(len(means)),
        *figures,
        _mean(means),
        against,
        _mean(per_game([row for row in own if "r2" in row], "r2")),
    ]


def per_game(rows: Sequence[Row], figure: str = "f1") -> dict[str, float]:
    """The mean over labels in each game."""
    values: dict[str, list[float]] = {}
    for row in rows:
        values.setdefault(row["game"], []).append(row[figure])
    return {game: float(np.mean(each)) for game, each in values.items()}


def _mean(values: dict[str, float]) -> str:
    return f"{np.mean(list(values.values())):.3f}" if values else "-"
