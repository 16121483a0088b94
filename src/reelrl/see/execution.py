"""How updates are run: op by op, fused by torch.compile, or recorded once as a CUDA graph and replayed.

A graph holds the updates of any number of learners. Those with the same settings, but for their first weights, are
computed at once, as one network per layer; different ones each on a stream of its own. A small network leaves most of a
GPU idle, so learners that share a graph run beside each other, and each computes what it would compute alone.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from reelrl.errors import ConfigError
from reelrl.see.many_nets import ManyNets, can_be_one
from reelrl.see.one_net import OneNet
from reelrl.see.update import Update

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from reelrl.see.learner import StreamingAutoEncoder
    from reelrl.see.result import LearnResult

Result = TypeVar("Result")
FEW = 4  # updates whose branches have streams of their own
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
    shares = shares_of(learners, compiled=mode.startswith("compiled"), graph=graph)
    return Graphed(shares) if graph else OneByOne(shares)


class LearnerShare(NamedTuple):
    """An update, and which of the frames are those of its learners."""

    update: Update
    places: list[int]

    def __call__(self, frames: Sequence[Tensor], resets: Sequence[Tensor]) -> list[LearnResult]:
        return self.update([frames[place] for place in self.places], [resets[place] for place in self.places])


def shares_of(learners: Sequence[StreamingAutoEncoder], *, compiled: bool, graph: bool) -> list[LearnerShare]:
    """The updates of these learners: in a graph one for all that are alike, elsewhere one for each."""
    groups: dict[str, list[int]] = {}
    for place, learner in enumerate(learners):
        alike = graph and can_be_one([learner.settings])
        groups.setdefault(repr(replace(learner.settings, seed=0)) if alike else str(place), []).append(place)
    shares = []
    for places in groups.values():
        own = [learners[place] for place in places]
        # Several learners fill a GPU by themselves; the branches of one, and those of one update, do not.
        update = Update(
            ManyNets(own) if len(own) > 1 else OneNet(own[0]), compiled=compiled, streams=graph and len(groups) <= FEW
        )
        shares.append(LearnerShare(update, places))
    return shares


class OneByOne:
    """Learner after learner, op by op."""

    def __init__(self, shares: Sequence[LearnerShare]) -> None:
        self._shares = shares
        # Made once: a flag from the host for every frame would be a copy for every frame.
        device = shares[0].update.learners[0].device
        self._flags = torch.zeros((), device=device), torch.ones((), device=device)

    def __call__(self, frames: Sequence[Tensor], resets: Sequence[bool]) -> list[LearnResult]:
        results = side_by_side(self._shares, frames, [self._flags[reset] for reset in resets], [])
        _count(self._shares)
        return results


class Graphed:
    """All learners' updates as one recorded graph, recorded anew when the frames change their shape."""

    def __init__(self, shares: Sequence[LearnerShare]) -> None:
        self._shares = shares
        self._learners = [learner for share in shares for learner in share.update.learners]
        self._streams = make_streams(len(shares))
        self._frames: list[Tensor] = []
        self._resets = torch.zeros(len(self._learners), device=self._learners[0].device)
        self._last_resets: list[bool] = [False] * len(self._learners)
        self._recording = Recording(
            lambda: side_by_side(self._shares, self._frames, list(self._resets), self._streams),
        )

    def __call__(self, frames: Sequence[Tensor], resets: Sequence[bool]) -> list[LearnResult]:
        if [_kind(frame) for frame in frames] != [_kind(frame) for frame in self._frames]:
            self._frames = [torch.zeros_like(frame) for frame in frames]
            self._recording.forget()
        torch._foreach_copy_(self._frames, list(frames))
        if list(resets) != self._last_resets:
            self._last_resets = list(resets)
            # Pinned, so that the copy does not wait; rare, so that a fresh buffer costs nothing.
            flags = torch.tensor(self._last_resets, dtype=torch.float32).pin_memory()
            self._resets.copy_(flags, non_blocking=True)
        results = self._recording(*self._learners)
        _count(self._shares)
        return results


def _count(shares: Sequence[LearnerShare]) -> None:
    for share in shares:
        for learner in share.update.learners:
            learner.frames_seen += 1


class Rewindable(Protocol):
    """What work changes, and what can be put back to where it was."""

    def training_state(self) -> Mapping[str, Tensor | int]: ...

    def rewind(self, state: Mapping[str, Tensor | int]) -> None: ...


class Recording(Generic[Result]):
    """Work on tensors that stay where they are, recorded as a CUDA graph when it is first asked for, then replayed."""

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work
        self._graph: torch.cuda.CUDAGraph | None = None
        self._result: list[Result] = []

    def forget(self) -> None:
        """Record anew: a tensor has moved."""
        self._graph = None

    def __call__(self, *changed: Rewindable) -> Result:
        """What the work returns; the next call overwrites it. `changed` is all that the work changes."""
        if self._graph is None:
            self._graph = self._record(changed)
        self._graph.replay()
        return self._result[0]

    def _record(self, changed: Sequence[Rewindable]) -> torch.cuda.CUDAGraph:
        """Warm up, record, and put everything back to where it was."""
        saved = [each.training_state() for each in changed]
        outer = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        outer.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(outer), _searching_for_fast_convolutions():
            for _ in range(WARM_UP_STEPS):
                self._work()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        # Threads that fill pinned buffers with the next frames must not spoil the recording.
        recording = torch.cuda.graph(graph, stream=outer, capture_error_mode="thread_local")
        with recording, _searching_for_fast_convolutions():
            self._result = [self._work()]
        for each, state in zip(changed, saved, strict=True):
            each.rewind(state)
        torch.cuda.synchronize()
        return graph


def make_streams(count: int) -> list[torch.cuda.Stream]:
    return [torch.cuda.Stream() for _ in range(count)]  # type: ignore[no-untyped-call]


def side_by_side(
    shares: Sequence[LearnerShare],
    frames: Sequence[Tensor],
    resets: Sequence[Tensor],
    streams: Sequence[torch.cuda.Stream],
) -> list[LearnResult]:
    """Each learner's result, in the order of the frames; updates on streams of their own where there are streams."""
    results: dict[int, LearnResult] = {}
    if not streams:
        for share in shares:
            results |= zip(share.places, share(frames, resets), strict=True)
        return [results[place] for place in range(len(frames))]
    # All fork before any joins: a join in the loop would make each update wait for the one before.
    outer = torch.cuda.current_stream()
    for stream in streams:
        stream.wait_stream(outer)
    for share, stream in zip(shares, streams, strict=True):
        with torch.cuda.stream(stream):
            results |= zip(share.places, share(frames, resets), strict=True)
    for stream in streams:
        outer.wait_stream(stream)
    return [results[place] for place in range(len(frames))]


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
