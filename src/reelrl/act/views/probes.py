"""What can be read off frozen embeddings: probes fitted to a share of the labels, all of them at once.

    linear    ridge regression to 0 and 1, solved exactly for all shares and strengths in one go
    small     one hidden layer; all shares and strengths are one batched net

Strengths of regularisation are chosen on validation matches, question by question.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reelrl.act.location.scores import mean_precision

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Probe = Literal["linear", "small"]
PROBES: tuple[Probe, ...] = ("linear", "small")
WIDEST = 512
"""Wider embeddings are projected to their first principal components, so that probes are alike."""
_RIDGES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)  # in units of the number of samples
_DECAYS = (0.01, 0.3, 3.0)  # of the weights, in units of the learning rate
_FOR_AXES = 4 * WIDEST
_HIDDEN, _STEPS, _BATCH, _LR = 64, 300, 256, 5e-3


@dataclass(frozen=True, eq=False)
class ProbedViews:
    """Embeddings [N, D] of single views, and the truth [N, questions, places] about each."""

    embeddings: Tensor
    truth: NDArray[np.bool_]


def fit_and_answer(
    train: ProbedViews, chosen: Sequence[NDArray[np.int64]], tuning: ProbedViews, asked: Mapping[str, Tensor], seed: int
) -> list[dict[tuple[Probe, str], NDArray[np.float32]]]:
    """For each choice of training views: answers [N, questions, places] by probe to every set of embeddings asked."""
    names = list(asked)
    scaled, tuning_x, *others = _standardised([train.embeddings, tuning.embeddings, *(asked[name] for name in names)])
    truth = torch.from_numpy(train.truth.reshape(len(train.truth), -1)).float()
    shape = train.truth.shape[1:]
    answers: list[dict[tuple[Probe, str], NDArray[np.float32]]] = [{} for _ in chosen]
    for probe in PROBES:
        fitted: Sequence[Sequence[_Linear | _Small]] = (
            _linear(scaled, truth, chosen) if probe == "linear" else _small(scaled, truth, chosen, seed)
        )
        for number, variants in enumerate(fitted):
            # [strengths, N, questions, places]
            tried = np.stack([_shaped(variant(tuning_x), shape) for variant in variants])
            best = _best(tried, tuning.truth)
            for name, x in zip(names, others, strict=True):
                said = np.stack([_shaped(variant(x), shape) for variant in variants])
                answers[number][probe, name] = np.stack([said[pick, :, q] for q, pick in enumerate(best)], axis=1)
    return answers


def _standardised(sets: Sequence[Tensor]) -> list[Tensor]:
    """By the first set, whose labels are not looked at: principal components if it is wide, then unit variance."""
    first = sets[0].float()
    mean = first.mean(0)
    parts = [each.float() - mean for each in sets]
    if first.shape[1] > WIDEST:
        axes = _principal_axes(parts[0])
        parts = [each @ axes for each in parts]
    scale = parts[0].std(0)
    # A unit that never fires says nothing, and would be blown up by its own noise.
    scale = torch.where(scale > 1e-6 * scale.max().clamp(min=1e-12), scale, torch.inf)
    return [each / scale for each in parts]


def _principal_axes(centred: Tensor) -> Tensor:
    """The first WIDEST axes [D, WIDEST], from some thousands of samples: exact enough, and seconds for any width."""
    some = centred[:: -(-len(centred) // _FOR_AXES)].double()
    some = some / some.std().clamp(min=1e-12)
    if some.shape[1] <= len(some):
        axes: Tensor = torch.linalg.eigh(some.T @ some)[1]
        return axes[:, -WIDEST:].float()
    # As many axes as there are samples: those of the samples' own products, brought back.
    products = torch.linalg.eigh(some @ some.T)[1][:, -WIDEST:]
    return torch.nn.functional.normalize(some.T @ products, dim=0).float()


class _Linear:
    def __init__(self, weights: Tensor, bias: Tensor) -> None:
        self.weights, self.bias = weights, bias

    def __call__(self, x: Tensor) -> Tensor:
        # Answers are wanted between 0 and 1; the order, which is what counts, stays.
        return torch.sigmoid(4 * (x @ self.weights + self.bias) - 2)


def _linear(x: Tensor, truth: Tensor, chosen: Sequence[NDArray[np.int64]]) -> list[list[_Linear]]:
    """A list of probes, one per strength, for each choice of samples."""
    grams, products, means = [], [], []
    for numbers in chosen:
        some, wanted = x[torch.from_numpy(numbers)], truth[torch.from_numpy(numbers)]
        centre, share = some.mean(0), wanted.mean(0)
        some = some - centre
        grams.append(some.T @ some / len(some))
        products.append(some.T @ (wanted - share) / len(some))
        means.append((centre, share))
    # In double precision: with fewer samples than numbers most eigenvalues are nothing, and nearly equal.
    values, axes = torch.linalg.eigh(torch.stack(grams).double())
    turned = axes.transpose(1, 2) @ torch.stack(products).double()
    strengths = torch.tensor(_RIDGES)[:, None, None, None]
    weights = (axes @ (turned / (values.clamp(min=0)[..., None] + strengths))).float()  # [strengths, choices, D, K]
    return [
        [_Linear(weights[s, c], share - centre @ weights[s, c]) for s in range(len(_RIDGES))]
        for c, (centre, share) in enumerate(means)
    ]


class _Small:
    def __init__(self, layers: Sequence[Tensor]) -> None:
        self.layers = layers

    def __call__(self, x: Tensor) -> Tensor:
        first, first_bias, last, last_bias = self.layers
        return torch.sigmoid(torch.relu(x @ first + first_bias) @ last + last_bias)


def _small(x: Tensor, truth: Tensor, chosen: Sequence[NDArray[np.int64]], seed: int) -> list[list[_Small]]:
    """All probes as one batched net: choices times strengths, each on samples of its own."""
    count, generator = len(chosen) * len(_DECAYS), torch.Generator().manual_seed(seed)
    width, outputs = x.shape[1], truth.shape[1]
    layers = [
        torch.randn(count, width, _HIDDEN, generator=generator) / width**0.5,
        torch.zeros(count, 1, _HIDDEN),
        torch.randn(count, _HIDDEN, outputs, generator=generator) / _HIDDEN**0.5,
        torch.logit(truth.mean(0).clamp(1e-3, 1 - 1e-3)).expand(count, 1, outputs).clone(),
    ]
    for layer in layers:
        layer.requires_grad_()
    decays = torch.tensor(_DECAYS).repeat(len(chosen))[:, None, None]
    pools = [torch.from_numpy(numbers) for numbers in chosen for _ in _DECAYS]
    optimiser = torch.optim.Adam(layers, _LR)
    for step in range(_STEPS):
        lr = _LR * min(1.0, 20 * (step + 1) / _STEPS, 2 * (1 - step / _STEPS))
        optimiser.param_groups[0]["lr"] = lr
        batch = torch.stack([pool[torch.randint(len(pool), (_BATCH,), generator=generator)] for pool in pools])
        hidden = torch.relu(x[batch] @ layers[0] + layers[1])
        logits = hidden @ layers[2] + layers[3]
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, truth[batch], reduction="none")
        optimiser.zero_grad()
        loss.mean((1, 2)).sum().backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        with torch.no_grad():
            for matrix in (layers[0], layers[2]):
                matrix *= 1 - lr * decays
    with torch.no_grad():
        nets = [_Small([layer[number].detach() for layer in layers]) for number in range(count)]
    return [nets[c * len(_DECAYS) : (c + 1) * len(_DECAYS)] for c in range(len(chosen))]


def _shaped(answers: Tensor, shape: tuple[int, ...]) -> NDArray[np.float32]:
    return np.asarray(answers.reshape(-1, *shape).numpy(), np.float32)


def _best(tried: NDArray[np.float32], truth: NDArray[np.bool_]) -> list[int]:
    """For each question the strength with the best average precision."""
    return [int(np.argmax([mean_precision(said[:, q], truth[:, q]) for said in tried])) for q in range(truth.shape[1])]
