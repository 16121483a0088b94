"""Convolutions of several networks at once, each with weights of its own: inputs [L, C, H, W], weights [L, ...].

Two ways compute the same. "grouped" is one convolution whose groups are the networks. "products" is one product of
matrices per network, all of them in one call: a convolution of stride 2 is one of stride 1 over the picture's four
phases (even and odd rows and columns), a transposed one gives four phases that are woven into a picture, and a
convolution of stride 1 is a product with what its kernel sees at each place. Which is faster depends on the shape and
on the device: on a GPU both are timed when a shape is first seen, as cuDNN does with its own ways.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

    Way = Callable[..., Tensor]

ALIGNED = 8  # numbers: products of rows that begin elsewhere are several times slower
_TRIES = 3
_fastest: dict[tuple[Any, ...], Way] = {}


def convolve(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """X [L, C, H, W] with weights [L, O, C, K, K], stride 2, no padding."""
    return _best((convolve_by_products, convolve_by_groups), x, weight, bias)


def spread(x: Tensor, weight: Tensor, bias: Tensor, output_padding: int) -> Tensor:
    """The transposed convolution of x [L, C, H, W] with weights [L, C, O, K, K], stride 2."""
    return _best((spread_by_products, spread_by_groups), x, weight, bias, output_padding)


def mix(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """X [L, C, H, W] with weights [L, O, C, 1, 1]: a mixture of channels at each place."""
    mixed = _product(weight.to(x.dtype), x)
    return mixed if bias is None else mixed + _per_channel(bias, mixed)


def convolve_by_groups(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    joined = functional.conv2d(
        x.flatten(0, 1).unsqueeze(0), weight.flatten(0, 1), bias.flatten(), stride=2, groups=len(x)
    )
    return joined.reshape(len(x), -1, *joined.shape[2:])


def spread_by_groups(x: Tensor, weight: Tensor, bias: Tensor, output_padding: int) -> Tensor:
    joined = functional.conv_transpose2d(
        x.flatten(0, 1).unsqueeze(0),
        weight.flatten(0, 1),
        bias.flatten(),
        stride=2,
        output_padding=output_padding,
        groups=len(x),
    )
    return joined.reshape(len(x), -1, *joined.shape[2:])


def convolve_by_products(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    kernel, half = weight.shape[-1], (weight.shape[-1] + 1) // 2
    # As many rows as the kernel reaches, and an even number of them.
    missing = [2 * ((side - kernel) // 2 + half) - side for side in x.shape[2:]]
    phases = functional.pixel_unshuffle(_padded(x, (0, missing[1], 0, missing[0])), 2)
    out: Tensor = _Products.apply(phases, _phases(weight))  # type: ignore[no-untyped-call]
    return out + _per_channel(bias, out)


def spread_by_products(x: Tensor, weight: Tensor, bias: Tensor, output_padding: int) -> Tensor:
    kernel, half = weight.shape[-1], (weight.shape[-1] + 1) // 2
    height, width = (2 * (side - 1) + kernel + output_padding for side in x.shape[2:])
    reach = half - 1
    own = _phases(weight).flip(3, 4).transpose(1, 2)
    out: Tensor = _Products.apply(_padded(x, (reach, reach, reach, reach)), own)  # type: ignore[no-untyped-call]
    woven = functional.pixel_shuffle(out, 2)[:, :, :height, :width]
    return woven + _per_channel(bias, woven)


class _Products(torch.autograd.Function):
    """A convolution of stride 1 without padding: x [L, C, H, W], weights [L, O, C, K, K]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        columns = _columns(x, weight.shape[-1])
        ctx.save_for_backward(columns, weight)
        return _product(weight, columns)[..., : x.shape[3] - weight.shape[-1] + 1]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor]:
        (gradient,) = gradients
        columns, weight = ctx.saved_tensors
        reach, width = weight.shape[-1] - 1, gradient.shape[3]
        whole = functional.pad(gradient, (0, columns.shape[3] - width))
        wanted = torch.bmm(whole.flatten(2), columns.flatten(2).mT).view_as(weight)
        if not ctx.needs_input_grad[0]:
            return None, wanted
        turned = weight.flip(3, 4).transpose(1, 2)
        seen = _columns(functional.pad(gradient, (reach, reach, reach, reach)), reach + 1)
        return _product(turned, seen)[..., : width + reach], wanted


def _columns(x: Tensor, kernel: int) -> Tensor:
    """What the kernel sees at each place: [L, C * K * K, H', W'], W' rounded up to what tensor cores read at once."""
    height, width = (side - kernel + 1 for side in x.shape[2:])
    more = -width % ALIGNED
    x, width = _padded(x, (0, more, 0, 0)), width + more
    seen = [x[:, :, i : i + height, j : j + width] for i in range(kernel) for j in range(kernel)]
    return torch.stack(seen, 2).flatten(1, 2)


def _product(weight: Tensor, columns: Tensor) -> Tensor:
    return torch.bmm(weight.flatten(2), columns.flatten(2)).view(len(weight), -1, *columns.shape[2:])


def _phases(weight: Tensor) -> Tensor:
    """Kernels [L, A, B, K, K] as those of the four phases, [L, A, 4 B, K', K']."""
    odd = weight.shape[-1] % 2
    phases = functional.pixel_unshuffle(functional.pad(weight, (0, odd, 0, odd)).flatten(0, 1), 2)
    return phases.view(*weight.shape[:2], *phases.shape[1:])


def _padded(x: Tensor, sides: tuple[int, int, int, int]) -> Tensor:
    return functional.pad(x, sides) if any(sides) else x


def _per_channel(bias: Tensor, like: Tensor) -> Tensor:
    return bias.to(like.dtype)[:, :, None, None]


def _best(ways: tuple[Way, ...], *given: Any) -> Tensor:
    """What the fastest of the ways gives; away from a GPU the first."""
    x, weight = given[:2]
    if not x.is_cuda:
        return ways[0](*given)
    key = (ways[0], x.dtype, x.shape, weight.shape, x.requires_grad)
    if key not in _fastest:
        if torch.cuda.is_current_stream_capturing():
            return ways[0](*given)
        _fastest[key] = min(ways, key=lambda way: _seconds(way, *given))
    return _fastest[key](*given)


def _seconds(way: Way, x: Tensor, weight: Tensor, *rest: Any) -> float:
    """For there and back, on inputs like these."""
    own, kernel = x.detach().requires_grad_(x.requires_grad), weight.detach().requires_grad_()
    rest = tuple(each.detach() if isinstance(each, Tensor) else each for each in rest)

    def once() -> None:
        out = way(own, kernel, *rest)
        torch.autograd.grad(out, [own, kernel] if x.requires_grad else [kernel], torch.ones_like(out))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the thread of the backward pass meets the device for the first time
        once()
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    begin.record()
    for _ in range(_TRIES):
        once()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end))
