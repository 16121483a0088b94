"""What an embedding knows: a linear probe from it to where things are, beside PCA and small pictures of the same size.

Frames are of episodes that no model saw. Whole episodes go to fitting, to choosing the strength of the ridge, and to
the test; R2 is of the test frames. All choose from the same strengths, in units of their own variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from reelrl.content.atari_labels import PLACES, labelled_shots
from reelrl.errors import ConfigError
from reelrl.evaluation.autoencoder_model import HELD_OUT_SEED, encode, in_batches
from reelrl.see.frames import to_input

if TYPE_CHECKING:
    from reelrl.evaluation.autoencoder_model import Subject

    Array = NDArray[np.float32]

STRENGTHS = tuple(10.0**power for power in np.arange(-7, 2.1, 0.5))
"""Of the ridge, as shares of the features' total variance."""

_SAME_SIZE = 39  # 39 x 39 x 3 = 4563 numbers, a few more than the embedding's 4495
_FIT, _CHOOSE, _TEST = 0, 1, 2
_COLUMNS = 8192


@dataclass(frozen=True)
class ProbeResult:
    """How well one representation tells one coordinate: R2 on unseen episodes."""

    representation: str
    numbers: int
    place: str
    r2: float
    strength: float
    frames: tuple[int, int, int]
    """Fitted on, chosen on, tested on."""

    def as_record(self) -> dict[str, Any]:
        return {**vars(self)}


@dataclass(frozen=True)
class Labelled:
    """Frames [N, 3, 224, 224], their places (N, labels), and the part that each frame's episode belongs to."""

    frames: Tensor
    places: NDArray[np.float64]
    part: NDArray[np.int64]


def labelled_frames(game: str, count: int, every: int = 2) -> Labelled:
    """Every second picture of held-out episodes; of ten episodes six are to fit on, two to choose by, two to test."""
    frames, places, episodes = [], [], []
    for labelled in islice(labelled_shots(game, HELD_OUT_SEED), 0, count * every, every):
        frames.append(to_input(torch.from_numpy(labelled.shot.picture).permute(2, 0, 1)))
        places.append(labelled.places)
        episodes.append(labelled.shot.position.episode)
    part = np.array([(_FIT, _TEST, _FIT, _CHOOSE, _FIT, _FIT, _TEST, _FIT, _CHOOSE, _FIT)[e % 10] for e in episodes])
    if len(set(part)) < 3:
        raise ConfigError(f"{count} frames of {game} span {episodes[-1] + 1} episodes; a probe needs four, use more")
    return Labelled(torch.cat(frames), np.array(places), part)


def probe(subject: Subject, count: int = 2400) -> list[ProbeResult]:
    """R2 of every representation for every place of the subject's game."""
    game = subject.source.removeprefix("ale:")
    data = labelled_frames(game, count)
    results = []
    for name, numbers, gram in _representations(subject, data):
        for column, place in enumerate(PLACES[game]):
            r2, strength, sizes = ridge_r2(gram, data.places[:, column], data.part)
            results.append(ProbeResult(name, numbers, place, r2, strength, sizes))
    return results


def ridge_r2(
    gram: NDArray[np.float64], target: NDArray[np.float64], part: NDArray[np.int64]
) -> tuple[float, float, tuple[int, int, int]]:
    """R2 on the test part, the strength chosen, and how many frames each part had.

    `gram` holds the inner products of all frames' features. The ridge is solved in the space of frames, which are fewer
    than features; frames without a label are left out.
    """
    fit, choose, test = (np.nonzero((part == which) & np.isfinite(target))[0] for which in (_FIT, _CHOOSE, _TEST))
    row_means = gram[:, fit].mean(axis=1)
    centred = gram - row_means[:, None] - row_means[None, :] + row_means[fit].mean()
    values, vectors = np.linalg.eigh(centred[np.ix_(fit, fit)])
    values = values.clip(min=0)
    mean = target[fit].mean()
    projected = vectors.T @ (target[fit] - mean)

    def r2(strength: float, where: NDArray[np.int64]) -> float:
        weights = vectors @ (projected / (values + strength * values.sum()))
        wrong = target[where] - mean - centred[np.ix_(where, fit)] @ weights
        spread = target[where] - target[where].mean()
        return float(1 - (wrong @ wrong) / max(spread @ spread, 1e-12))

    best = max(STRENGTHS, key=lambda strength: r2(strength, choose))
    return r2(best, test), best, (fit.size, choose.size, test.size)


def _representations(subject: Subject, data: Labelled) -> list[tuple[str, int, NDArray[np.float64]]]:
    """Name, numbers per frame, and the frames' inner products."""
    branches = encode(subject.model, data.frames)
    embedding = np.concatenate([_unit(branch) for branch in branches], axis=1)
    size = embedding.shape[1]
    return [
        ("embedding", size, _gram(embedding)),
        ("its 27x27x3 branch", branches[0][0].size, _gram(_unit(branches[0]))),
        ("PCA", size, _pca_gram(data, size)),
        ("39x39 pixels", 3 * _SAME_SIZE**2, _gram(_shrunk(data.frames, _SAME_SIZE))),
        ("27x27 pixels", 3 * 27**2, _gram(_shrunk(data.frames, 27))),
    ]


def _unit(branch: Array) -> Array:
    """A branch as one row per frame, every channel with the same variance: no branch speaks louder than another."""
    spread = branch.std(axis=(0, 2, 3), keepdims=True)
    scaled: Array = (branch / np.maximum(spread, 1e-6)).reshape(len(branch), -1)
    return scaled


def _shrunk(frames: Tensor, size: int) -> Array:
    small = [
        functional.interpolate(batch, (size, size), mode="bilinear", antialias=True) for batch in in_batches(frames)
    ]
    pixels: Array = torch.cat(small).flatten(1).numpy()
    return pixels


def _gram(features: Array) -> NDArray[np.float64]:
    """Inner products of centred rows, some columns at a time: a centred copy of all pixels would take gigabytes."""
    total = np.zeros((len(features), len(features)))
    for start in range(0, features.shape[1], _COLUMNS):
        some = features[:, start : start + _COLUMNS]
        some = some - some.mean(axis=0)
        total += some @ some.T
    return total


def _pca_gram(data: Labelled, components: int) -> NDArray[np.float64]:
    """Inner products in the space of the first components of the fitting frames.

    As many components as there are frames to fit are all there are: the projection then loses nothing that a ridge on
    those frames could use, and the pixels' own inner products say the same.
    """
    gram = _gram(data.frames.flatten(1).numpy())
    fit = np.nonzero(data.part == _FIT)[0]
    if fit.size <= components:
        return gram
    values, vectors = np.linalg.eigh(gram[np.ix_(fit, fit)])
    scores = gram[:, fit] @ (vectors[:, -components:] / np.sqrt(values[-components:].clip(min=1e-9)))
    projected: NDArray[np.float64] = scores @ scores.T
    return projected
