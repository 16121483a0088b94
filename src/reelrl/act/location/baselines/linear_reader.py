"""One linear layer from what is known of all places to the answers of all heads: how baselines read what is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from reelrl.act.location.model.net import HEADS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from reelrl.act.location.answers import Answers
    from reelrl.act.location.samples import Marks

_DOUBT = 1e-4  # weight of the squares of the layer's numbers, beside nats per answer


class LinearReading:
    """Logistic regression, fitted at once on all that there is: no chance in it."""

    def fit(self, known: NDArray[np.float32], truth: Mapping[str, Marks]) -> None:
        """From features [N, F] and what is true [N, places] for each head."""
        said = torch.from_numpy(np.concatenate([truth[head] for head in HEADS], 1)).float()
        features = torch.from_numpy(known)
        prior = said.mean(0).clamp(1e-3, 1 - 1e-3)
        self.weight = torch.zeros(known.shape[1], said.shape[1], requires_grad=True)
        self.bias = (prior / (1 - prior)).log().requires_grad_()
        optimiser = torch.optim.LBFGS([self.weight, self.bias], max_iter=100, line_search_fn="strong_wolfe")

        def loss() -> float:
            optimiser.zero_grad()
            value = binary_cross_entropy_with_logits(features @ self.weight + self.bias, said)
            value = value + _DOUBT * self.weight.square().sum() / said.shape[1]
            value.backward()  # type: ignore[no-untyped-call]
            return value.item()

        optimiser.step(loss)  # type: ignore[no-untyped-call]

    @torch.no_grad()
    def answer(self, known: NDArray[np.float32]) -> Answers:
        said = (torch.from_numpy(known) @ self.weight + self.bias).sigmoid().numpy()
        return dict(zip(HEADS, np.split(said, len(HEADS), axis=1), strict=True))
