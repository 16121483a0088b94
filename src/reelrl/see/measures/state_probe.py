"""What an embedding knows of a game's state: linear classifiers of frozen features, scored by F1 per category.

After AtariARI (Anand et al. 2019). A label is one byte of the console's memory. A linear layer with a softmax is fitted
to each by Adam, on features of zero mean and one common scale, and the rate and the epoch are taken that are best on
frames to choose by.
F1 is that of the classes weighted by their frames, of the test frames. Whole episodes that no model saw go to fitting,
choosing and testing. Labels that hardly vary (entropy below 0.6 nats) are left out.
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

from reelrl.content.feeds.atari_state import StateLabel, state_labels, state_shots
from reelrl.errors import ConfigError
from reelrl.see.frames.source import to_input
from reelrl.see.learner import StreamingAutoEncoder
from reelrl.see.measures.baselines import shrunk
from reelrl.see.measures.probe import PCA_SIZE, SAME_SIZE, pca, ridge_errors, unit_branch
from reelrl.see.measures.probe_frames import CHOOSE, FIT, TEST, split_frames
from reelrl.see.measures.trained import HELD_OUT_SEED
from reelrl.see.settings import AutoEncoderSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

LEAST_ENTROPY = 0.6  # nats
EVERY = 4  # pictures: neighbours say nearly the same
EPOCHS, BATCH, RATES, DECAY = 25, 256, (1e-3, 1e-2), 1e-2
_ENCODED = 32  # frames at once
BASELINES = ("majority", "random CNN", "PCA", f"{SAME_SIZE}x{SAME_SIZE} pixels")


@dataclass(frozen=True)
class StateFrames:
    """Frames of unseen episodes, their labels as classes [N, labels], and what each is for."""

    game: str
    pictures: list[NDArray[np.uint8]]
    labels: list[StateLabel]
    classes: Tensor
    values: Tensor
    """The bytes themselves, [N, labels]."""
    part: Tensor


def state_frames(game: str, count: int) -> StateFrames:
    """`count` frames to fit on, an eighth as many to choose by and a quarter to test on."""
    pictures, bytes_, parts = [], [], []
    for shot, state, part in split_frames(state_shots(game, HELD_OUT_SEED), count, EVERY):
        pictures.append(shot.picture.copy())
        bytes_.append(state)
        parts.append(part)
    part_of, held = torch.tensor(parts), torch.from_numpy(np.stack(bytes_)).long()
    fitted = held[part_of == FIT]
    lively = [i for i in range(held.shape[1]) if entropy(fitted[:, i]) >= LEAST_ENTROPY]
    if not lively:
        raise ConfigError(f"no label of {game} has {LEAST_ENTROPY} nats in {count} frames; give more frames")
    labels = state_labels(game)
    values = held[:, lively]
    classes = torch.stack([torch.unique(column, return_inverse=True)[1] for column in values.unbind(1)], 1)
    return StateFrames(game, pictures, [labels[i] for i in lively], classes, values, part_of)


def entropy(values: Tensor) -> float:
    """Of the values' frequencies, in nats."""
    share = torch.unique(values, return_counts=True)[1].double() / len(values)
    return float(-(share * share.log()).sum())


@torch.no_grad()
def baseline_features(frames: StateFrames, device: str, like: StreamingAutoEncoder) -> dict[str, Tensor]:
    """What the embedding is compared with, by name, each (N, numbers).

    The random CNN is an untrained default encoder that sees differences from the background of `like`.
    """
    random = StreamingAutoEncoder(AutoEncoderSettings(), device)
    random.background.load_state_dict(like.background.state_dict())
    small = [
        [shrunk(some, size).flatten(1) for size in (PCA_SIZE, SAME_SIZE)] for some in _inputs(frames.pictures, device)
    ]
    pixels, same = (torch.cat(column) for column in zip(*small, strict=True))
    untrained = embedding(random, frames, device)
    return {
        "random CNN": untrained,
        "PCA": pca(pixels, untrained.shape[1], frames.part.to(device)),
        f"{SAME_SIZE}x{SAME_SIZE} pixels": same,
    }


@torch.no_grad()
def embedding(model: StreamingAutoEncoder, frames: StateFrames, device: str) -> Tensor:
    """The embeddings of frames, every channel with the same variance, (N, 4495)."""
    rows = [model.encode(some) for some in _inputs(frames.pictures, device)]
    return torch.cat([unit_branch(torch.cat(branch)) for branch in zip(*rows, strict=True)], 1)


def probe_state(features: Tensor | None, frames: StateFrames) -> list[dict[str, Any]]:
    """F1 of each label, and the R2 of a ridge on the bytes of places; without features, of the most frequent class."""
    test = (frames.part == TEST).cpu()
    truth = frames.classes[test]
    if features is None:
        common = frames.classes[frames.part == FIT].mode(dim=0).values
        guessed, r2 = common.expand_as(truth), [0.0] * truth.shape[1]
    else:
        guessed = fit_classes(features, frames.classes, frames.part)
        r2 = _r2(features, frames)
    return [
        {
            "label": label.name,
            "category": label.category,
            "f1": round(weighted_f1(guessed[:, i], truth[:, i]), 4),
            **({"r2": round(r2[i], 4)} if label.category in ("agent", "small", "other") else {}),
        }
        for i, label in enumerate(frames.labels)
    ]


def _r2(features: Tensor, frames: StateFrames) -> list[float]:
    values, part = frames.values.double().to(features.device), frames.part.to(features.device)
    truth = values[part == TEST]
    spread = (truth - truth.mean(dim=0)).square().sum(dim=0).clamp(min=1e-12)
    errors = [float(wrong.square().sum()) for _, wrong in ridge_errors(features, values, part)]
    return [1 - error / float(each) for error, each in zip(errors, spread, strict=True)]


def fit_classes(features: Tensor, classes: Tensor, part: Tensor) -> Tensor:
    """The classes that linear layers give the test frames, (tests, labels); all layers are fitted at once."""
    device = features.device
    fit, choose, test = (part.to(device) == which for which in (FIT, CHOOSE, TEST))
    centre = features[fit].mean(dim=0)
    scale = (features[fit] - centre).square().mean().sqrt()  # one for all: what varies little says little
    known, chosen, tested = ((features[which].float() - centre) / scale for which in (fit, choose, test))
    answers = classes.to(device)
    labels, most = classes.shape[1], int(classes.max()) + 1
    # A label has fewer classes than the one with the most: the others must never win.
    nowhere = torch.arange(most, device=device) > answers.amax(dim=0).unsqueeze(1)
    best = torch.full((labels,), torch.inf, device=device)
    guessed = torch.zeros(len(tested), labels, dtype=torch.long, device=device)
    for rate in RATES:
        for layer in _epochs(known, answers[fit], nowhere, rate):
            with torch.no_grad():
                now = _losses(layer(chosen), answers[choose])
                better = now < best
                best = torch.where(better, now, best)
                guessed = torch.where(better, layer(tested).argmax(dim=2), guessed)
    return guessed.cpu()


def _epochs(known: Tensor, answers: Tensor, nowhere: Tensor, rate: float) -> Iterator[Callable[[Tensor], Tensor]]:
    """After each epoch what gives the logits, (N, labels, classes)."""
    labels, most = nowhere.shape
    weight = torch.zeros(known.shape[1], labels * most, device=known.device, requires_grad=True)
    bias = torch.zeros(labels * most, device=known.device, requires_grad=True)
    optimiser = torch.optim.AdamW([weight, bias], rate, weight_decay=DECAY)
    chance = torch.Generator().manual_seed(0)

    def logits(some: Tensor) -> Tensor:
        return (some @ weight + bias).view(-1, labels, most).masked_fill(nowhere, -1e9)

    for _ in range(EPOCHS):
        for batch in torch.split(torch.randperm(len(known), generator=chance).to(known.device), BATCH):
            optimiser.zero_grad(set_to_none=True)
            _losses(logits(known[batch]), answers[batch]).sum().backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        yield logits


def _losses(logits: Tensor, answers: Tensor) -> Tensor:
    """Of each label, the mean over frames."""
    return functional.cross_entropy(logits.transpose(1, 2), answers, reduction="none").mean(dim=0)


def weighted_f1(guessed: Tensor, truth: Tensor) -> float:
    """The mean F1 of the classes in `truth`, weighted by how often each is there."""
    most = int(torch.maximum(guessed.max(), truth.max())) + 1
    right = torch.bincount(truth[guessed == truth], minlength=most).double()
    said, there = (torch.bincount(each, minlength=most).double() for each in (guessed, truth))
    f1 = 2 * right / (said + there).clamp(min=1)
    return float((f1 * there).sum() / there.sum())


def _inputs(pictures: Sequence[NDArray[np.uint8]], device: str) -> Iterator[Tensor]:
    rest = iter(pictures)
    while some := list(islice(rest, _ENCODED)):
        yield to_input(torch.from_numpy(np.stack(some)).to(device).permute(0, 3, 1, 2))
