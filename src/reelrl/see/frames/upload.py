"""Pictures on their way to the learner's device.

    upload = Upload(device)
    upload.place(210, 160, 3)[:] = picture      # a host array to be filled, pinned where there is a GPU
    pixels = upload.send()                      # the same on the device; work queued after this finds it there

On CUDA the copy runs on a stream of its own, beside the update before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SLOTS = 4  # pinned buffers: how far the host may run ahead of the device


class Upload:
    """Host buffers in turn. On the CPU each is new, and sending it copies nothing."""

    def __init__(self, device: str | torch.device) -> None:
        self._device = torch.device(device)
        self._slots: list[Tensor | None] = [None] * SLOTS
        self._turn = 0
        self._stream: torch.cuda.Stream | None = None
        if self._device.type == "cuda":
            self._stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
            self._copied = [torch.cuda.Event() for _ in range(SLOTS)]  # type: ignore[no-untyped-call]

    def place(self, *shape: int) -> NDArray[np.uint8]:
        """The next buffer, which `send` will send."""
        self._turn = (self._turn + 1) % SLOTS
        held = self._slots[self._turn]
        if self._stream:
            self._copied[self._turn].synchronize()  # long done, unless the device is SLOTS buffers behind
        if held is None or held.shape != shape or not self._stream:
            held = self._slots[self._turn] = torch.empty(shape, dtype=torch.uint8, pin_memory=bool(self._stream))
        array: NDArray[np.uint8] = held.numpy()
        return array

    def send(self) -> Tensor:
        """What was placed last, on its way to the device."""
        held = self._slots[self._turn]
        if held is None:
            raise RuntimeError("nothing was placed")
        if not self._stream:
            return held
        with torch.cuda.stream(self._stream):
            pixels = held.to(self._device, non_blocking=True)
        self._copied[self._turn].record(self._stream)
        learner = torch.cuda.current_stream(self._device)
        learner.wait_stream(self._stream)
        # The allocator must not hand this memory out again before the learner has read it.
        pixels.record_stream(learner)
        return pixels
