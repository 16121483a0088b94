"""The networks of several learners as one: each layer computes all of them at once, each with its own weights.

All weights of a learner are one row of one matrix, and so is each thing that the optimiser remembers of them. The
learners hold views of their rows: what is saved, loaded or encoded by one of them is what it would be alone.
"""

from __future__ import annotations

from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import softsign
from torch.nn.utils import parameters_to_vector

from reelrl.see.model.batched import convolve, mix, spread
from reelrl.see.optim import make_optimiser

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reelrl.see.learner import StreamingAutoEncoder
    from reelrl.see.settings import AutoEncoderSettings

_Module = TypeVar("_Module", bound=nn.Module)

ELEMENTWISE = ("adam", "adamw", "rmsprop", "sgd")
"""Optimisers for which a weight's step depends on that weight alone, so that they do not see whose it is."""


def can_be_one(settings: Sequence[AutoEncoderSettings]) -> bool:
    """Whether learners with these settings can be computed at once: alike but for their first weights."""
    first = settings[0]
    plain = not first.residual and not first.transformer and first.optimiser.name in ELEMENTWISE
    return plain and all(replace(each, seed=first.seed) == first for each in settings)


class ManyNets:
    """`Nets` of several learners, which from now on hold views of what is here."""

    def __init__(self, learners: Sequence[StreamingAutoEncoder]) -> None:
        self.learners: Sequence[StreamingAutoEncoder] = learners
        self.settings = learners[0].settings
        self.background = stack_buffers([learner.background for learner in learners])
        self.detector = stack_buffers([learner.detector for learner in learners])
        rows = torch.stack([parameters_to_vector(learner.parameters()).detach() for learner in learners])
        self._rows = nn.Parameter(rows)
        self._rows.grad = torch.zeros_like(rows)
        self._optimiser = make_optimiser([self._rows], self.settings.optimiser)
        self._remember()
        shapes = {name: parameter.shape for name, parameter in learners[0].named_parameters()}
        # Views of the matrix that gradients are asked for: slices of one leaf would each cost a matrix of zeros.
        columns = torch.split(self._rows.detach(), [shape.numel() for shape in shapes.values()], 1)
        self._leaves: dict[str, Tensor] = {
            name: each.view(len(learners), *shape).requires_grad_()
            for (name, shape), each in zip(shapes.items(), columns, strict=True)
        }
        for number, learner in enumerate(learners):
            self._share(number, learner)

    def _remember(self) -> None:
        """Let the optimiser make what it remembers, at its beginning."""
        before = self._rows.detach().clone()
        self._optimiser.step()
        with torch.no_grad():
            self._rows.copy_(before)
            for value in self._optimiser.state[self._rows].values():
                if isinstance(value, Tensor):
                    value.zero_()

    def _share(self, number: int, learner: StreamingAutoEncoder) -> None:
        """Let a learner and its optimiser hold views of its row."""
        start = 0
        for parameter in learner.parameters():
            own = slice(start, start + parameter.numel())
            parameter.data = self._rows.detach()[number, own].view_as(parameter)
            learner.optimiser.state[parameter] = {
                name: value[number, own].view_as(parameter) if value.dim() else value
                for name, value in self._optimiser.state[self._rows].items()
                if isinstance(value, Tensor)
            }
            start += parameter.numel()

    def branch(self, number: int, normalised: Tensor) -> tuple[Tensor, Tensor]:
        """One branch's embeddings of normalised frames, and its votes on the pictures."""
        with _fast_products():
            encoder = self.learners[0].encoder
            code = self._run(f"encoder.branches.{number}", encoder.branches[number], normalised)
            if encoder.averages:
                small = encoder.averages[number].shrink(normalised)  # type: ignore[operator]
                code = code + mix(small, self._leaves[f"encoder.averages.{number}.mix.weight"])
            embedding = softsign(code) if encoder.bounded else code
            decoder = self.learners[0].decoder.branches[number]
            return embedding, self._run(f"decoder.branches.{number}", decoder, embedding)

    def _run(self, name: str, layers: nn.Module, x: Tensor) -> Tensor:
        dtype = torch.bfloat16 if self.settings.precision == "bfloat16" else torch.float32
        for place, layer in layers.named_children():
            if not isinstance(layer, nn.Conv2d | nn.ConvTranspose2d):
                x = layer(x)
                continue
            weight, bias = (self._leaves[f"{name}.{place}.{kind}"].to(dtype) for kind in ("weight", "bias"))
            if isinstance(layer, nn.Conv2d):
                x = convolve(x.to(dtype), weight, bias)
            else:
                x = spread(x.to(dtype), weight, bias, int(layer.output_padding[0]))
        return x

    def read(self, fine: Tensor) -> Tensor:
        """A small picture of each finest embedding."""
        return mix(fine, self._leaves["reader.weight"], self._leaves["reader.bias"])

    def descend(self, loss: Tensor, resets: Sequence[Tensor]) -> Tensor:  # noqa: ARG002  none of them has traces
        """A step down each one's loss [L]; the norms of the gradients [L] before they were clipped."""
        with _fast_products():
            gradients = torch.autograd.grad(loss.sum(), list(self._leaves.values()))
        with torch.no_grad():
            joined = torch.cat([each.flatten(1) for each in gradients], 1)
            norm: Tensor = joined.norm(dim=1)
            if self.settings.optimiser.clip_norm > 0:
                joined *= (self.settings.optimiser.clip_norm / (norm + 1e-6)).clamp(max=1.0).unsqueeze(1)
            self._rows.grad = joined
            self._optimiser.step()
        return norm


def stack_buffers(modules: Sequence[_Module]) -> _Module:
    """A module whose buffers are those of all of them, [L, ...]; each of them holds views of its own from now on."""
    joint = deepcopy(modules[0])
    for name, buffer in joint.named_buffers():
        own = [module.get_buffer(name) for module in modules]
        held = torch.cat(own) if buffer.dim() else torch.stack(own)
        setattr(joint, name, held)
        for number, module in enumerate(modules):
            setattr(module, name, held[number : number + 1] if buffer.dim() else held[number])
    return joint


@contextmanager
def _fast_products() -> Iterator[None]:
    """Products of matrices as exact as cuDNN's convolutions are by default."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
