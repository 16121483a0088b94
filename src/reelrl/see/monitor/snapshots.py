"""Tensors as they are now, to be looked at later by another thread: nobody waits for the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from torch import Tensor


class Snapshot:
    """Copies of some tensors, on their way to the host."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        on_cuda = any(tensor.is_cuda for tensor in tensors.values())
        # A non-blocking copy from CUDA lands in pinned memory; on the CPU the learner would write over its own tensors.
        self._tensors = {
            name: tensor.detach().to("cpu", non_blocking=True) if on_cuda else tensor.detach().clone()
            for name, tensor in tensors.items()
        }
        self._arrived = torch.cuda.Event() if on_cuda else None  # type: ignore[no-untyped-call]
        if self._arrived:
            self._arrived.record()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The tensors as arrays, once they are there."""
        if self._arrived:
            self._arrived.synchronize()
        return {name: tensor.numpy() for name, tensor in self._tensors.items()}
