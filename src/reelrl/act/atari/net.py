"""The player's own small network: convolutions over each thing it sees, then layers over all of them.

`PlayerNet` is one network as one would write it. `PlayerNets` holds the networks of several players side by side: all
weights of a player are one row of one matrix, and each layer computes all players at once, each with its own weights.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from reelrl.errors import ConfigError
from reelrl.see.model.layers import LayerNormalization, sparse_init_

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from reelrl.act.atari.settings import PlayerNetSettings

    Shapes = Mapping[str, Sequence[int]]


class PlayerNet(nn.Module):
    """Parts by name, each [N, channels, height, width] or [N, numbers], to [N, outputs]."""

    def __init__(self, shapes: Shapes, settings: PlayerNetSettings, outputs: int, generator: torch.Generator) -> None:
        super().__init__()
        self.trunks = nn.ModuleDict(
            {name: nn.Sequential(*_trunk(name, shape, settings)) for name, shape in shapes.items()}
        )
        with torch.no_grad():
            width = sum(self._features(name, torch.zeros(1, *shape)).shape[1] for name, shape in shapes.items())
        self.head = nn.Sequential(*_head(width, settings, outputs))
        sparse_init_(self, settings.sparsity, generator)

    def forward(self, parts: Mapping[str, Tensor]) -> Tensor:
        features = [self._features(name, parts[name]) for name in self.trunks]
        values: Tensor = self.head(features[0] if len(features) == 1 else torch.cat(features, 1))
        return values

    def _features(self, name: str, part: Tensor) -> Tensor:
        features: Tensor = self.trunks[name](part)
        return features.flatten(1)


class PlayerNets(nn.Module):
    """A network per generator, side by side: parts by name, each [players, ...], to [players, outputs]."""

    weights: Tensor

    def __init__(
        self,
        shapes: Shapes,
        settings: PlayerNetSettings,
        outputs: int,
        generators: Iterable[torch.Generator],
        device: str | torch.device = "cpu",
    ) -> None:
        super().__init__()
        nets = [PlayerNet(shapes, settings, outputs, generator) for generator in generators]
        rows = torch.stack([parameters_to_vector(net.parameters()).detach() for net in nets])
        self.register_buffer("weights", rows.to(device))
        self._plan = [nets[0]]  # in a list: its weights are no part of this module
        # Views of the matrix that gradients are asked for: slices of one leaf would each cost a matrix of zeros.
        self._leaves: list[Tensor] = []
        start = 0
        for parameter in nets[0].parameters():
            columns = self.weights.detach()[:, start : start + parameter.numel()]
            self._leaves.append(columns.view(len(nets), *parameter.shape).requires_grad_())
            start += parameter.numel()

    def forward(self, parts: Mapping[str, Tensor]) -> Tensor:
        leaves, net = iter(self._leaves), self._plan[0]
        features = [_run(net.trunks[name], parts[name], leaves).flatten(1) for name in net.trunks]
        return _run(net.head, features[0] if len(features) == 1 else torch.cat(features, 1), leaves)

    def gradient(self, prediction: Tensor, *, out: Tensor, retain: bool = False) -> None:
        """Each player's gradient of its own prediction [players], as the rows of `out`."""
        gradients = torch.autograd.grad(prediction.sum(), self._leaves, retain_graph=retain)
        torch.cat([each.flatten(1) for each in gradients], 1, out=out)

    def row(self, player: int) -> PlayerNet:
        """A copy of one player's network, by itself."""
        net = deepcopy(self._plan[0])
        vector_to_parameters(self.weights[player].to("cpu", copy=True), net.parameters())
        return net


def chosen(values: Tensor, action: Tensor) -> Tensor:
    """Of values [players, actions] those of the actions [players]; its gradient is cheaper than that of `gather`."""
    places = torch.arange(values.shape[1], device=values.device)
    return (values * (places == action.unsqueeze(1))).sum(1)


def _run(layers: nn.Module, x: Tensor, leaves: Iterator[Tensor]) -> Tensor:
    """The layers with each player's own weights, which are taken from `leaves` in their order."""
    for layer in layers.children():
        match layer:
            case nn.Conv2d():
                x = _convolve(x, next(leaves), next(leaves), layer.kernel_size[0], layer.stride[0])
            case nn.Linear():
                weight, bias = next(leaves), next(leaves)
                if len(x) == 1:
                    x = functional.linear(x, weight.squeeze(0), bias.squeeze(0))
                else:
                    x = torch.baddbmm(bias.unsqueeze(2), weight, x.unsqueeze(2)).squeeze(2)
            case _:
                x = layer(x)
    return x


def _convolve(x: Tensor, weight: Tensor, bias: Tensor, kernel: int, stride: int) -> Tensor:
    if x.is_cuda and len(x) == 1:
        return functional.conv2d(x, weight.squeeze(0), bias.squeeze(0), stride)
    # Products of matrices: grouped convolutions of so few channels are far slower on a GPU, and on a CPU so is one
    # convolution of a single picture.
    height, width = ((side - kernel) // stride + 1 for side in x.shape[2:])
    columns = _columns(x, kernel, stride)
    return torch.baddbmm(bias.unsqueeze(2), weight.flatten(2), columns).view(len(x), -1, height, width)


def _columns(x: Tensor, kernel: int, stride: int) -> Tensor:
    """What a kernel sees at each place: [players, channels * kernel * kernel, places]."""
    if not x.is_cuda:
        return functional.unfold(x, kernel, stride=stride)
    # On a GPU `unfold` would start a kernel per player.
    patches = x.unfold(2, kernel, stride).unfold(3, kernel, stride)
    return patches.permute(0, 1, 4, 5, 2, 3).reshape(len(x), -1, patches.shape[2] * patches.shape[3])


def _trunk(name: str, shape: Sequence[int], settings: PlayerNetSettings) -> Iterator[nn.Module]:
    """The convolutions over a part; numbers go to the head as they are."""
    if len(shape) == 1:
        return
    before, side = shape[0], min(shape[1:])
    for channels, kernel, stride in settings.pixel_layers if name == "pixels" else settings.embedding_layers:
        if side < kernel:
            raise ConfigError(f"a kernel of {kernel} does not fit into {name} of {side} a side; set smaller layers")
        yield nn.Conv2d(before, channels, kernel, stride)
        yield from _bent(settings)
        before, side = channels, (side - kernel) // stride + 1


def _head(width: int, settings: PlayerNetSettings, outputs: int) -> Iterator[nn.Module]:
    for hidden in settings.hidden:
        yield nn.Linear(width, hidden)
        yield from _bent(settings)
        width = hidden
    yield nn.Linear(width, outputs)


def _bent(settings: PlayerNetSettings) -> Iterator[nn.Module]:
    if settings.layer_norm:
        yield LayerNormalization()
    yield nn.LeakyReLU()
