"""A policy as ONNX: features and net in one graph, from what the controller holds to a score for each rung.

fixed rungs   observation (players, 6, columns + 1): the environment's state, its memory as the last column
any ladder    the fields of `Player`, `Offer` and `History`, see `reelrl.stream.scalefree.features`
"""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from reelrl.stream.controllers.learned import Learned
from reelrl.stream.scalefree import features as seen
from reelrl.stream.scalefree import sizes
from reelrl.stream.simulator.observation import S_INFO

if TYPE_CHECKING:
    from reelrl.stream.controllers.network import AbrPolicy
    from reelrl.stream.export.module import EXPORTED
    from reelrl.stream.scalefree.network import ScaleFreePolicy

OPSET = 18
# All are there: a caller offers the rungs that its ladder has.
PLAYER = tuple(name for name in seen.Player._fields if name != "present")
INPUTS = (*PLAYER, *seen.Offer._fields, *seen.History._fields)


class _FixedRungs(nn.Module):
    def __init__(self, policy: AbrPolicy) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, observation: Tensor) -> Tensor:
        return self.policy.logits(observation)


class _AnyLadder(nn.Module):
    def __init__(self, policy: ScaleFreePolicy) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, *given: Tensor) -> Tensor:
        named = dict(zip(INPUTS, given, strict=True))
        present = torch.ones_like(named["rates_mbps"])
        player = seen.Player(**{name: named[name] for name in PLAYER}, present=present)
        offer = seen.Offer(*(named[name] for name in seen.Offer._fields))
        history = seen.History(*(named[name] for name in seen.History._fields))
        return self.policy.scores(*seen.features(player, offer, history), present)


def onnx_bytes(controller: EXPORTED) -> bytes:
    """The content of policy.onnx; needs the package `onnx`."""
    import onnx  # noqa: F401 - torch's exporter wants it and reports its absence late

    if isinstance(controller, Learned):
        policy = controller.policy
        return _exported(_FixedRungs(policy), ("observation",), (torch.rand(2, S_INFO, policy.columns + 1),))
    return _exported(_AnyLadder(controller.policy), INPUTS, _example())


def _example() -> tuple[Tensor, ...]:
    """Two players, three rungs; the sizes of both are left open in the graph."""
    wide = {"rates_mbps": 3, "sizes_mbit": 3, "utilities": 3, "ahead": sizes.AHEAD, "memory": sizes.MEMORY}
    wide |= dict.fromkeys(("rates", "delays", "seen"), sizes.HISTORY)
    return tuple(torch.rand((2, wide[name]) if name in wide else (2,)) + 0.5 for name in INPUTS)


def _exported(net: nn.Module, inputs: tuple[str, ...], example: tuple[Tensor, ...]) -> bytes:
    rungs = {"rates_mbps", "sizes_mbit", "utilities"} | ({"scores"} if len(inputs) > 1 else set())
    axes = {name: {0: "players"} | ({1: "rungs"} if name in rungs else {}) for name in (*inputs, "scores")}
    written = io.BytesIO()
    with warnings.catch_warnings():
        # Its successor needs two packages more and gives the same graph.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            net.eval(),
            example,
            written,  # type: ignore[arg-type]
            dynamo=False,
            input_names=list(inputs),
            output_names=["scores"],
            dynamic_axes=axes,
            opset_version=OPSET,
        )
    return written.getvalue()
