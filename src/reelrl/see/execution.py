"""The same step, faster: fused by torch.compile, or recorded once as a CUDA graph and replayed.

A graph holds the steps of any number of learners, each on a stream of its own. A small network leaves most of a GPU
idle, so learners that share a graph run beside each other, and each computes what it would compute alone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from reelrl.errors import ConfigError
from reelrl.see.settings import KERNELS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reelrl.see.learner import StreamingAutoEncoder
    from reelrl.see.result import LearnResult

WARM_UP_STEPS = 3
Path = Callable[[Tensor], tuple[Tensor, Tensor]]


class Step(Protocol):
    """Frames on the device and whether each is a cut, one per learner; each learner's result."""

    def __call__(self, frames: Sequence[Tensor], resets: Sequence[bool]) -> list[LearnResult]: ...


def fast_step(learners: Sequence[StreamingAutoEncoder], mode: str) -> Step:
    """The step of these learners in one of the ways that `AutoEncoderSettings.step` lists."""
    on_gpu = learners[0].device.type == "cuda"
    if mode == "auto":
        mode = "graph" if on_gpu else "eager"
    graph = mode.endswith("graph")
    if graph and not on_gpu:
        raise ConfigError(f"step is {mode!r}, but the model is on {learners[0].device}; a CUDA graph needs a GPU")
    for learner in learners:
        # Several learners fill a GPU by themselves; the branches of one alone do not.
        learner.speed = Speed(learner, compiled=mode.startswith("compiled"), streams=graph and len(learners) == 1)
    return Graphed(learners) if graph else OneByOne(learners)


class Speed:
    """The two halves of a learner's pass: its branches, which need nothing of each other, and the verdict on them."""

    def __init__(self, learner: StreamingAutoEncoder, compiled: bool = False, streams: bool = False) -> None:
        self._paths: list[Path] = [partial(learner.path, branch) for branch in range(len(KERNELS))]
        self.judge = learner.judge
        if compiled:
            self._paths = [torch.compile(path, dynamic=False) for path in self._paths]
            self.judge = torch.compile(learner.judge, dynamic=False)
        self._streams = [torch.cuda.Stream() for _ in self._paths] if streams else []  # type: ignore[no-untyped-call]

    def side_by_side(self, normalised: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Embeddings and votes of the branches; with streams they run, and later learn, at the same time."""
        pairs = self._on_streams(normalised) if self._streams else [path(normalised) for path in self._paths]
        return [embedding for embedding, _ in pairs], [votes for _, votes in pairs]

    def _on_streams(self, normalised: Tensor) -> list[tuple[Tensor, Tensor]]:
        outer = torch.cuda.current_stream()
        pairs = []
        for path, stream in zip(self._paths, self._streams, strict=True):
            stream.wait_stream(outer)
            with torch.cuda.stream(stream):
                pairs.append(path(normalised))
        for stream in self._streams:
            outer.wait_stream(stream)
        return pairs


class OneByOne:
    """Learner after learner, op by op."""

    def __init__(self, learners: Sequence[StreamingAutoEncoder]) -> None:
        self._learners = learners
        self._flags = torch.zeros((), device=learners[0].device), torch.ones((), device=learners[0].device)

    def __call__(self, frames: Sequence[Tensor], resets: Sequence[bool]) -> list[LearnResult]:
        each = zip(self._learners, frames, resets, strict=True)
        return [learner.step(frame, self._flags[reset]) for learner, frame, reset in each]


class Graphed:
    """All learners' steps as one recorded graph, recorded anew when the frames change their shape."""

    def __init__(self, learners: Sequence[StreamingAutoEncoder]) -> None:
        self._learners = learners
        self._frames: list[Tensor] = []
        self._resets = torch.zeros(len(learners), device=learners[0].device)
        self._last_resets: list[bool] = [False] * len(learners)
        self._results: list[LearnResult] = []
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, frames: Sequence[Tensor], resets: Sequence[bool]) -> list[LearnResult]:
        if [_kind(frame) for frame in frames] != [_kind(frame) for frame in self._frames]:
            self._frames = [torch.zeros_like(frame) for frame in frames]
            self._record()
        torch._foreach_copy_(self._frames, list(frames))
        if list(resets) != self._last_resets:
            self._last_resets = list(resets)
            # Pinned, so that the copy does not wait; rare, so that a fresh buffer costs nothing.
            flags = torch.tensor(self._last_resets, dtype=torch.float32).pin_memory()
            self._resets.copy_(flags, non_blocking=True)
        if self._graph is None:
            raise RuntimeError("no graph was recorded")
        self._graph.replay()
        return self._results

    def _record(self) -> None:
        """Warm up, record, and put every learner back to where it was."""
        saved = [learner.training_state() for learner in self._learners]
        streams = [torch.cuda.Stream() for _ in self._learners]  # type: ignore[no-untyped-call]
        outer = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        outer.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(outer), _searching_for_fast_convolutions():
            for _ in range(WARM_UP_STEPS):
                self._steps(streams)
        torch.cuda.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        # Threads that fill pinned buffers with the next frames must not spoil the recording.
        recording = torch.cuda.graph(self._graph, stream=outer, capture_error_mode="thread_local")
        with recording, _searching_for_fast_convolutions():
            self._results = self._steps(streams)
        for learner, state in zip(self._learners, saved, strict=True):
            learner.rewind(state)
        torch.cuda.synchronize()

    def _steps(self, streams: Sequence[torch.cuda.Stream]) -> list[LearnResult]:
        # All fork before any joins: a join in the loop would make each learner wait for the one before.
        outer = torch.cuda.current_stream()
        for stream in streams:
            stream.wait_stream(outer)
        results = []
        for i, (learner, stream) in enumerate(zip(self._learners, streams, strict=True)):
            with torch.cuda.stream(stream):
                results.append(learner.step(self._frames[i], self._resets[i]))
        for stream in streams:
            outer.wait_stream(stream)
        return results


@contextmanager
def _searching_for_fast_convolutions() -> Iterator[None]:
    """Let cuDNN try its algorithms once per shape; worth it for shapes that are replayed for hours."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def _kind(frame: Tensor) -> tuple[torch.Size, torch.dtype]:
    return frame.shape, frame.dtype
