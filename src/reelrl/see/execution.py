"""How updates are run: op by op, fused by torch.compile, or recorded once as a CUDA graph and replayed.

A graph holds the updates of any number of learners, each on a stream of its own. A small network leaves most of a GPU
idle, so learners that share a graph run beside each other, and each computes what it would compute alone.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from reelrl.errors import ConfigError
from reelrl.see.update import Update

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from reelrl.see.learner import StreamingAutoEncoder
    from reelrl.see.result import LearnResult

WARM_UP_STEPS = 3  # kernels are loaded when they first run, which a recording does not allow


class Step(Protocol):
    """Frames on the device and whether each is a cut, one per learner; each learner's result."""

    def __call__(self, frames: Sequence[Tensor], resets: Sequence[bool]) -> list[LearnResult]: ...


def step_of(learners: Sequence[StreamingAutoEncoder]) -> Step:
    """The step of these learners in the way that their settings agree on (`AutoEncoderSettings.step`)."""
    modes = sorted({learner.settings.step for learner in learners})
    if len(modes) > 1:
        raise ConfigError(f"the learners want to step in different ways ({', '.join(modes)}); choose one for all")
    mode, on_gpu = modes[0], learners[0].device.type == "cuda"
    if mode == "auto":
        mode = "graph" if on_gpu else "eager"
    graph = mode.endswith("graph")
    if graph and not on_gpu:
        raise ConfigError(f"step is {mode!r}, but the model is on {learners[0].device}; a CUDA graph needs a GPU")
    # Several learners fill a GPU by themselves; the branches of one alone do not.
    streams = graph and len(learners) == 1
    updates = [Update(learner, compiled=mode.startswith("compiled"), streams=streams) for learner in learners]
    return Graphed(updates) if graph else OneByOne(updates)


class OneByOne:
    """Learner after learner, op by op."""

    def __init__(self, updates: Sequence[Update]) -> None:
        self._updates = updates
        # Made once: a flag from the host for every frame would be a copy for every frame.
        device = updates[0].learner.device
        self._flags = torch.zeros((), device=device), torch.ones((), device=device)

    def __call__(self, frames: Sequence[Tensor], resets: Sequence[bool]) -> list[LearnResult]:
        results = []
        for update, frame, reset in zip(self._updates, frames, resets, strict=True):
            results.append(update(frame, self._flags[reset]))
            update.learner.frames_seen += 1
        return results


class Graphed:
    """All learners' updates as one recorded graph, recorded anew when the frames change their shape."""

    def __init__(self, updates: Sequence[Update]) -> None:
        self._updates = updates
        self._frames: list[Tensor] = []
        self._resets = torch.zeros(len(updates), device=updates[0].learner.device)
        self._last_resets: list[bool] = [False] * len(updates)
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
        for update in self._updates:
            update.learner.frames_seen += 1
        return self._results

    def _record(self) -> None:
        """Warm up, record, and put every learner back to where it was."""
        saved = [update.learner.training_state() for update in self._updates]
        streams = [torch.cuda.Stream() for _ in self._updates]  # type: ignore[no-untyped-call]
        outer = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        outer.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(outer), _searching_for_fast_convolutions():
            for _ in range(WARM_UP_STEPS):
                self._update_all(streams)
        torch.cuda.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        # Threads that fill pinned buffers with the next frames must not spoil the recording.
        recording = torch.cuda.graph(self._graph, stream=outer, capture_error_mode="thread_local")
        with recording, _searching_for_fast_convolutions():
            self._results = self._update_all(streams)
        for update, state in zip(self._updates, saved, strict=True):
            update.learner.rewind(state)
        torch.cuda.synchronize()

    def _update_all(self, streams: Sequence[torch.cuda.Stream]) -> list[LearnResult]:
        # All fork before any joins: a join in the loop would make each learner wait for the one before.
        outer = torch.cuda.current_stream()
        for stream in streams:
            stream.wait_stream(outer)
        results = []
        for i, (update, stream) in enumerate(zip(self._updates, streams, strict=True)):
            with torch.cuda.stream(stream):
                results.append(update(self._frames[i], self._resets[i]))
        for stream in streams:
            outer.wait_stream(stream)
        return results


class Replay:
    """Small work on the result of a step, recorded once as a graph: thirty tiny kernels for the price of one launch.

        measure = Replay(lambda result: scores(result.frame, result.reconstruction))
        row = measure(model.learn(frame))

    The work may change tensors of its own, in place, and returns one tensor. The recording is good for as long as the
    result's tensors lie where they lay, as those of a recorded step do. On the CPU, and where they move, the work is
    simply done.
    """

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
        if self._calls <= WARM_UP_STEPS:
            return self._work(result)
        if self._graph is None:
            self._graph = torch.cuda.CUDAGraph()
            # Threads that only wait for events must not spoil the recording.
            with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
                self._row = self._work(result)
        self._graph.replay()
        return self._row


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
