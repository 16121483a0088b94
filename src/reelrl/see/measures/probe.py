"""What an embedding knows: a linear probe from it to where things are, beside PCA and small pictures of the same size.

Frames are of episodes that no model saw, and show all that is asked for. Whole episodes go to fitting, to choosing the
strength of the ridge, and to the test; R2 is of the test frames. All representations are of the same frames and choose
from the same strengths, in units of their own variance. Intervals draw the test episodes again, the same ones for all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reelrl.content.feeds.atari_labels import PLACES, labelled_shots
from reelrl.report.intervals import Interval
from reelrl.runs.progress import Progress
from reelrl.see.measures.baselines import shrunk
from reelrl.see.measures.probe_frames import CHOOSE, FIT, TEST, split_frames
from reelrl.see.measures.trained import BATCH, HELD_OUT_SEED, as_inputs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reelrl.content.pictures import Picture
    from reelrl.see.measures.trained import TrainedModel

STRENGTHS = tuple(10.0**power for power in range(-9, -2))
"""Of the ridge, as shares of the features' total variance."""
PCA_SIZE = 48
"""Pixels a side of the pictures that PCA is fitted on: their covariance must be decomposed in seconds."""

SAME_SIZE = 39  # 39 x 39 x 3 = 4563 numbers, a few more than the embedding's 4495
_SMALL = 27
_EVERY = 8  # pictures: neighbours say nearly the same, and other episodes something else
_DRAWS = 1000
_COMPARED = (
    ("embedding", "PCA"),
    ("embedding", "39x39 pixels"),
    ("embedding", "27x27 pixels"),
    ("its 27x27x3 branch", "27x27 pixels"),
)


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
    drawn: NDArray[np.float64] = field(repr=False, compare=False)
    """R2 of test episodes drawn anew, the same ones for every representation."""

    def as_record(self) -> dict[str, Any]:
        low, high = np.quantile(self.drawn, [0.025, 0.975])
        record = {name: value for name, value in vars(self).items() if name != "drawn"}
        return {**record, "low": float(low), "high": float(high)}


class Comparison(NamedTuple):
    """By how much one representation's R2 is above another's, in the mean over places, and at how many of them."""

    ours: str
    theirs: str
    difference: Interval
    won: int
    places: int


@dataclass(frozen=True)
class Labelled:
    """Representations (N, numbers) of frames by name, their places (N, labels), and what each frame belongs to."""

    features: dict[str, Tensor]
    places: Tensor
    part: Tensor
    episode: Tensor


def probe(trained: TrainedModel, count: int = 10_000) -> list[ProbeResult]:
    """R2 of every representation for every place of the model's game, fitted on `count` frames."""
    game = trained.source.removeprefix("ale:")
    data = describe(trained, count)
    fit, choose, test = (int((data.part == which).sum()) for which in (FIT, CHOOSE, TEST))
    tested = data.part == TEST
    spread = (data.places[tested] - data.places[tested].mean(dim=0)).square()
    results = []
    for name in list(data.features):
        features = data.features.pop(name)  # large, and needed once
        for column, (place, fitted) in enumerate(
            zip(PLACES[game], ridge_errors(features, data.places, data.part), strict=True)
        ):
            strength, wrong = fitted
            drawn = _draw(wrong.square(), spread[:, column], data.episode[tested])
            r2 = 1 - float(wrong.square().sum() / spread[:, column].sum().clamp(min=1e-12))
            results.append(ProbeResult(name, features.shape[1], place, r2, strength, (fit, choose, test), drawn))
    return results


def compare(probes: Sequence[Sequence[ProbeResult]]) -> list[Comparison]:
    """Representations against each other over all places of all games."""
    by_representation: dict[str, list[ProbeResult]] = {}
    for result in (each for one in probes for each in one):
        by_representation.setdefault(result.representation, []).append(result)
    comparisons = []
    for ours, theirs in _COMPARED:
        pairs = list(zip(by_representation.get(ours, ()), by_representation.get(theirs, ()), strict=True))
        if pairs:
            # Paired: both were drawn from the same episodes, so that an easy episode favours neither.
            drawn = np.mean([mine.drawn - other.drawn for mine, other in pairs], axis=0)
            low, high = np.quantile(drawn, [0.025, 0.975])
            differences = [mine.r2 - other.r2 for mine, other in pairs]
            interval = Interval(float(np.mean(differences)), float(low), float(high))
            won = sum(difference > 0 for difference in differences)
            comparisons.append(Comparison(ours, theirs, interval, won, len(pairs)))
    return comparisons


@torch.no_grad()
def describe(trained: TrainedModel, count: int) -> Labelled:
    """`count` frames to fit on, an eighth as many to choose by and a quarter to test on, in every representation."""
    rows: list[list[Tensor]] = []
    labels: list[tuple[tuple[float, ...], int, int]] = []
    with Progress("probe", count + count // 8 + count // 4, unit="frames") as progress:
        for some in _batches(labelled_frames(trained.source.removeprefix("ale:"), count)):
            frames = as_inputs([each.picture for each in some])
            small = [shrunk(frames, size) for size in (PCA_SIZE, SAME_SIZE, _SMALL)]
            rows.append([*trained.model.encode(frames), *small])
            labels += [(each.places, each.part, each.episode) for each in some]
            progress.update(len(some))
    where, parts, episodes = zip(*labels, strict=True)
    part = torch.tensor(parts)
    fine, middle, coarse, pixels, same, tiny = (torch.cat(column) for column in zip(*rows, strict=True))
    rows.clear()  # a gigabyte
    embedding = torch.cat([unit_branch(branch) for branch in (fine, middle, coarse)], dim=1)
    features = {
        "embedding": embedding,
        "its 27x27x3 branch": unit_branch(fine),
        "PCA": pca(pixels.flatten(1), embedding.shape[1], part),
        f"{SAME_SIZE}x{SAME_SIZE} pixels": same.flatten(1),
        f"{_SMALL}x{_SMALL} pixels": tiny.flatten(1),
    }
    return Labelled(features, torch.tensor(where, dtype=torch.float64), part, torch.tensor(episodes))


class LabelledFrame(NamedTuple):
    """A picture, the places in it, what it is for, and the episode it is of."""

    picture: Picture
    places: tuple[float, ...]
    part: int
    episode: int


def labelled_frames(game: str, count: int) -> Iterator[LabelledFrame]:
    """Pictures, places and parts until all are full, of pictures that show all that is asked for."""
    shots = labelled_shots(game, HELD_OUT_SEED)
    for shot, places, part in split_frames(shots, count, _EVERY, lambda places: bool(np.isfinite(places).all())):
        yield LabelledFrame(shot.picture, places, part, shot.position.episode)


def ridge_errors(features: Tensor, places: Tensor, part: Tensor) -> list[tuple[float, Tensor]]:
    """Of each place the strength chosen, and the errors on the test part; features (N, numbers), places (N, labels)."""
    fit, choose, test = (part == which for which in (FIT, CHOOSE, TEST))
    centre, mean = features[fit].mean(dim=0), places[fit].mean(dim=0)
    known = (features[fit] - centre).double()  # the weakest ridge is far below the rounding of single precision
    few = len(known) < known.shape[1]  # then the same weights come cheaper from the space of frames
    products = known @ known.T if few else known.T @ known
    answers = places[fit] - mean if few else known.T @ (places[fit] - mean)
    total = products.trace().clamp(min=1e-12)

    def errors(weights: Tensor, where: Tensor) -> Tensor:
        return places[where] - mean - (features[where] - centre).double() @ weights

    chosen, tested = [], []
    for strength in STRENGTHS:
        ridge = products.clone()
        ridge.diagonal().add_(strength * total)
        solved = torch.cholesky_solve(answers, torch.linalg.cholesky(ridge))
        weights = known.T @ solved if few else solved
        chosen.append(errors(weights, choose).square().sum(dim=0))
        tested.append(errors(weights, test))
    best = torch.stack(chosen).argmin(dim=0).tolist()
    return [(STRENGTHS[row], tested[row][:, column]) for column, row in enumerate(best)]


def _draw(wrong: Tensor, spread: Tensor, episode: Tensor) -> NDArray[np.float64]:
    """R2 for test episodes drawn with replacement, from the squares of each frame [N]."""
    # Episodes and not frames: those of one episode resemble each other, and would make the interval far too narrow.
    _, which = torch.unique(episode, return_inverse=True)
    count = int(which.max()) + 1
    sums = [torch.zeros(count, dtype=torch.float64).index_add_(0, which, each).numpy() for each in (wrong, spread)]
    drawn = np.random.default_rng(0).integers(count, size=(_DRAWS, count))  # the same for all: they are compared
    return np.asarray(1 - sums[0][drawn].sum(1) / np.maximum(sums[1][drawn].sum(1), 1e-12))


def _batches(frames: Iterator[Any]) -> Iterator[list[Any]]:
    while some := list(islice(frames, BATCH)):
        yield some


def unit_branch(branch: Tensor) -> Tensor:
    """A branch as one row per frame, every channel with the same variance: no branch speaks louder than another."""
    spread = branch.std(dim=(0, 2, 3), keepdim=True).clamp(min=1e-6)
    return (branch / spread).flatten(1)


def pca(pixels: Tensor, components: int, part: Tensor) -> Tensor:
    """The first components of the fitting frames; pixels that never change have no part in any."""
    known = pixels[part == FIT]
    lively = known.std(dim=0) > 1e-6
    known, centre = known[:, lively], known[:, lively].mean(dim=0)
    known = known - centre
    _, directions = torch.linalg.eigh(known.T @ known)
    scores: Tensor = (pixels[:, lively] - centre) @ directions[:, -components:]
    return scores
