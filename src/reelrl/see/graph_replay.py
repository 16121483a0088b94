"""Small work on the result of a step, recorded once as a CUDA graph: thirty tiny kernels for the price of one launch.

    measure = Replay(lambda result: scores(result.frame, result.reconstruction))
    row = measure(model.learn(frame))

The recording is good for as long as the result's tensors lie where they lay, as those of a recorded step do. On the
CPU, and where they move, the work is simply done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from reelrl.see.result import LearnResult

WARM_UP = 3  # kernels are loaded when they first run, which a recording does not allow


class Replay:
    """`work` on results. It may change tensors of its own, in place, and returns one tensor."""

    def __init__(self, work: Callable[[LearnResult], Tensor]) -> None:
        self._work = work
        self._places: tuple[int, ...] = ()
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._row = torch.empty(0)

    def __call__(self, result: LearnResult) -> Tensor:
        """What the work makes of the result; on CUDA the next call overwrites it."""
        if not result.frame.is_cuda:
            return self._work(result)
        places = tuple(value.data_ptr() for value in vars(result).values() if isinstance(value, Tensor))
        if places != self._places:
            self._places, self._calls, self._graph = places, 0, None
        self._calls += 1
        if self._calls <= WARM_UP:
            return self._work(result)
        if self._graph is None:
            self._graph = torch.cuda.CUDAGraph()
            # Threads that only wait for events must not spoil the recording.
            with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
                self._row = self._work(result)
        self._graph.replay()
        return self._row
