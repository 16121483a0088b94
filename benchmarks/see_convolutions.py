"""Milliseconds for there and back of each layer of many autoencoders, by the ways of `see.model.batched`.

python benchmarks/see_convolutions.py --learners 24            # needs a GPU
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from torch import nn

from reelrl.see.model import batched
from reelrl.see.model.network import Decoder, Encoder
from reelrl.see.settings import AutoEncoderSettings

SIDES = ((224, 111, 55, 27), (224, 110, 53, 25), (224, 109, 52, 23))
TRIES = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learners", type=int, default=24)
    parser.add_argument("--types", nargs="+", default=["float32", "bfloat16"])
    args = parser.parse_args()
    torch.backends.cudnn.benchmark = torch.backends.cuda.matmul.allow_tf32 = True
    settings = AutoEncoderSettings()
    encoder, decoder = Encoder(settings), Decoder(settings)
    for dtype in (getattr(torch, name) for name in args.types):
        totals = {"products": 0.0, "groups": 0.0, "fastest": 0.0}
        for branch, sides in enumerate(SIDES):
            both = (*encoder.branches[branch].children(), *decoder.branches[branch].children())
            layers = [layer for layer in both if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d)]
            for place, layer in enumerate(layers):
                side = sides[place] if place < 3 else sides[6 - place]
                times = _times(layer, side, args.learners, dtype, first=place == 0)
                for name, milliseconds in times.items():
                    totals[name] += milliseconds
                totals["fastest"] += min(times.values())
                shown = "  ".join(f"{name} {value:7.3f}" for name, value in times.items())
                print(
                    f"{dtype}  {type(layer).__name__:<16}{side:4} {tuple(layer.weight.shape)!s:<18} {shown}", flush=True
                )
        print(f"{dtype}  all  " + "  ".join(f"{name} {value:.2f} ms" for name, value in totals.items()), flush=True)


def _times(
    layer: nn.Conv2d | nn.ConvTranspose2d, side: int, learners: int, dtype: torch.dtype, *, first: bool
) -> dict[str, float]:
    x = torch.randn(learners, layer.in_channels, side, side, device="cuda", dtype=dtype, requires_grad=not first)
    weight = torch.randn(learners, *layer.weight.shape, device="cuda", dtype=dtype)
    given: list[Any] = [x, weight, torch.randn(learners, layer.out_channels, device="cuda", dtype=dtype)]
    ways: dict[str, Any] = {"products": batched.convolve_by_products, "groups": batched.convolve_by_groups}
    if isinstance(layer, nn.ConvTranspose2d):
        given.append(int(layer.output_padding[0]))
        ways = {"products": batched.spread_by_products, "groups": batched.spread_by_groups}
    return {name: batched._seconds(way, *given) / TRIES for name, way in ways.items()}


if __name__ == "__main__":
    main()
