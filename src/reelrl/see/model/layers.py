"""Layers for a learner that sees one sample at a time."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


class LayerNormalization(nn.Module):
    """Zero mean and unit variance over everything a sample holds; no parameters, nothing to drift."""

    def __init__(self, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return functional.layer_norm(x, x.shape[1:], eps=self.eps)


class ResidualBlock(nn.Module):
    """x + two 3x3 convolutions of x, same shape. The second starts at zero, so the block starts as the identity."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.second(functional.leaky_relu(self.first(x)))
        return x + hidden


class TransformerBlock(nn.Module):
    """Self-attention over the positions of a feature map, then a small network at each; starts as the identity."""

    def __init__(self, channels: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = math.gcd(channels, heads)
        self.queries_keys_values = nn.Linear(channels, 3 * channels)
        self.out = nn.Linear(channels, channels)
        self.widen = nn.Linear(channels, 2 * channels)
        self.narrow = nn.Linear(2 * channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        n, channels, height, width = x.shape
        tokens: Tensor = x.flatten(2).transpose(1, 2)
        tokens = tokens + self.out(self._attend(functional.layer_norm(tokens, (channels,))))
        hidden = functional.leaky_relu(self.widen(functional.layer_norm(tokens, (channels,))))
        tokens = tokens + self.narrow(hidden)
        return tokens.transpose(1, 2).reshape(n, channels, height, width)

    def _attend(self, tokens: Tensor) -> Tensor:
        n, positions, channels = tokens.shape
        split = self.queries_keys_values(tokens).view(n, positions, 3, self.heads, channels // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        return functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, positions, channels)


def sparse_init_(module: nn.Module, sparsity: float, generator: torch.Generator) -> None:
    """Uniform weights within 1/sqrt(fan in), of which `sparsity` per output unit are zero; biases are zero."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
            _sparse_layer_(layer, sparsity, generator)
    for layer in module.modules():
        if isinstance(layer, ResidualBlock):
            nn.init.zeros_(layer.second.weight)
        if isinstance(layer, TransformerBlock):
            nn.init.zeros_(layer.out.weight)
            nn.init.zeros_(layer.narrow.weight)


@torch.no_grad()
def _sparse_layer_(
    layer: nn.Conv2d | nn.ConvTranspose2d | nn.Linear, sparsity: float, generator: torch.Generator
) -> None:
    weight = layer.weight
    # A transposed convolution keeps its outputs in the second dimension, and each output sees a quarter of the kernel.
    transposed = isinstance(layer, nn.ConvTranspose2d)
    units = weight.transpose(0, 1) if transposed else weight
    fan_in = units[0].numel() / (layer.stride[0] ** 2 if isinstance(layer, nn.ConvTranspose2d) else 1)
    values = (torch.rand(units.shape, generator=generator) * 2 - 1) / math.sqrt(fan_in)
    order = torch.rand(units.shape, generator=generator).flatten(1).argsort(dim=1)
    zeros = order.argsort(dim=1) < math.ceil(sparsity * units[0].numel())
    units.copy_(values.masked_fill(zeros.view_as(values), 0.0))
    if layer.bias is not None:
        layer.bias.zero_()
