"""Some learners on their streams, and the sums of what is being scored.

    feed processes ──► blocks of frames on the device ──► a step per frame, which never waits for the device
                                  └──► guesses without a network ──┴──► scored a block at a time, in windows only

A pass can be saved wherever a block ends. Blocks end at fixed frames, so one that goes on computes the same sums.
"""

from __future__ import annotations

from contextlib import ExitStack
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch

from reelrl.content.feeds.kinds import START, Position
from reelrl.see.execution import step_of
from reelrl.see.frames.batches import BlockSource
from reelrl.see.learner import StreamingAutoEncoder
from reelrl.see.measures.baselines import StreamBaselines, through_small
from reelrl.see.measures.scores import Scores
from reelrl.see.measures.trained import background_of
from reelrl.see.race.results import marks, window_start
from reelrl.see.settings import FRAME_SIZE
from reelrl.see.train import tensors_below
from reelrl.settings import config

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from reelrl.runs.checkpoints import Checkpoint
    from reelrl.see.frames.batches import Block
    from reelrl.see.race.contestants import RaceContestant
    from reelrl.see.race.results import Results

NAMES = ("mean frame", "previous frame", "27x27 resize")
"""Guesses without a network, beside the learners."""
BLOCK = 16  # frames: enough to make what is done once per block cheap, and few enough for a CPU's caches


class Pass:
    """Learners that step together, from frame `done` on to `frames`."""

    def __init__(
        self,
        group: Sequence[RaceContestant],
        frames: int,
        *,
        seed: int = 0,
        device: str = "cpu",
        save_every: int = 5_000,
    ) -> None:
        self.group, self.frames, self.done = group, frames, 0
        self._seed, self._device = seed, device
        self.sources = list(dict.fromkeys(contestant.source for contestant in group))
        self.learners = [StreamingAutoEncoder(contestant.settings, device) for contestant in group]
        self._step = step_of(self.learners)
        self._baselines = {source: StreamBaselines(FRAME_SIZE).to(device) for source in self.sources}
        self._backgrounds = {source: background_of(source).to(device) for source in self.sources}
        self._positions = dict.fromkeys(self.sources, START)
        self._open = {mark: self._scores() for mark in marks(frames)}
        self._saves = {*marks(frames), *range(save_every, frames, save_every)}

    def _scores(self) -> dict[str, Scores]:
        return {source: Scores(len(NAMES) + len(self.watching(source)), self._device) for source in self.sources}

    def watching(self, source: str) -> list[int]:
        """Learners of a source, by their place."""
        return [place for place, contestant in enumerate(self.group) if contestant.source == source]

    def learn(self) -> Generator[int]:
        """Go on block by block; `done` after each."""
        stops = sorted({*range(BLOCK, self.frames, BLOCK), *self._saves})
        stops = [self.done, *(stop for stop in stops if stop > self.done)]
        sizes = [after - before for before, after in pairwise(stops)]
        with ExitStack() as stack:
            streams = [
                stack.enter_context(BlockSource(source, self._seed, sizes, self._device, self._positions[source]))
                for source in self.sources
            ]
            for blocks in zip(*streams, strict=True):
                self._watch(dict(zip(self.sources, blocks, strict=True)))
                yield self.done

    def at_save(self) -> bool:
        """Whether this is a mark, or another of the frames where a pass is saved."""
        return self.done in self._saves

    def _watch(self, blocks: dict[str, Block]) -> None:
        """Score and learn one block; pictures are copied only from where a window is open."""
        size = len(blocks[self.sources[0]].cuts)
        starts = {
            mark: max(0, window_start(mark) - self.done)
            for mark in self._open
            if self.done < mark and window_start(mark) < self.done + size
        }
        first = min(starts.values(), default=size)
        pictures = self._learn(blocks, first, size)
        for source, block in blocks.items():
            mean, last = self._baselines[source].observe(block.frames)
            self._positions[source] = block.position
            if first < size:
                frames, last = block.frames[first:], last[first:]
                guesses = [mean[first:], last, through_small(frames)]
                guesses += [pictures[place] for place in self.watching(source)]
                for mark, start in starts.items():
                    rest = slice(start - first, None)
                    self._open[mark][source].add(
                        [guess[rest] for guess in guesses], frames[rest], self._backgrounds[source], last[rest]
                    )
        self.done += size

    def _learn(self, blocks: dict[str, Block], first: int, size: int) -> Tensor:
        """What each learner made of the frames from `first` on before it learned from them, [L, N, 3, 224, 224]."""
        shape = (len(self.group), size - first, 3, FRAME_SIZE, FRAME_SIZE)
        pictures = torch.empty(shape, device=self._device)
        copies = [[] if i < first else list(pictures[:, i - first, None].unbind()) for i in range(size)]
        frames = zip(*(blocks[contestant.source].frames.unbind() for contestant in self.group), strict=True)
        cuts = zip(*(blocks[contestant.source].cuts for contestant in self.group), strict=True)
        for shown, resets, places in zip(frames, cuts, copies, strict=True):
            outcomes = self._step(shown, resets)
            if places:
                torch._foreach_copy_(places, [outcome.reconstruction for outcome in outcomes])
        return pictures

    def report(self, results: Results) -> bool:
        """Put down what was scored up to here, if this is a mark."""
        for source, scores in self._open.pop(self.done, {}).items():
            figures = scores.figures()
            for name, values in zip(NAMES, figures, strict=False):
                results.add((name, source, None), self.done, values, None)
            for place, values in zip(self.watching(source), figures[len(NAMES) :], strict=True):
                contestant = self.group[place]
                results.add(contestant.key, self.done, values, config.to_mapping(contestant.settings))
        return self.done in marks(self.frames)

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and plain data of this moment, for a checkpoint."""
        tensors = {name: value for name, value in self._tensors().items() if not isinstance(value, int)}
        arrays = {name: value.detach().cpu().numpy() for name, value in tensors.items()}
        places = {source: list(position) for source, position in self._positions.items()}
        return arrays, {"about": self._about(), "positions": places}

    def resume(self, saved: Checkpoint) -> bool:
        """Go to a checkpoint, if it is one of this very pass."""
        if saved.state.get("about") != self._about():
            return False
        for number, learner in enumerate(self.learners):
            learner.load_training_state(tensors_below(saved, f"learner.{number}.") | {"frames_seen": saved.step})
        self._open = {mark: scores for mark, scores in self._open.items() if mark > saved.step}
        for number, source in enumerate(self.sources):
            self._baselines[source].load_state_dict(tensors_below(saved, f"yardsticks.{number}."))
            self._positions[source] = Position(*saved.state["positions"][source])
            for mark, scores in self._open.items():
                scores[source].sums.copy_(torch.from_numpy(saved.tensors[f"sums.{number}.{mark}"]))
        self.done = saved.step
        return True

    def _tensors(self) -> dict[str, Tensor | int]:
        held: dict[str, Tensor | int] = {}
        for number, learner in enumerate(self.learners):
            held |= {f"learner.{number}.{name}": value for name, value in learner.training_state().items()}
        for number, source in enumerate(self.sources):
            state = self._baselines[source].state_dict()
            # What baselines are called in files since the first ones, so that old checkpoints load.
            held |= {f"yardsticks.{number}.{name}": value for name, value in state.items()}
            held |= {f"sums.{number}.{mark}": scores[source].sums for mark, scores in self._open.items()}
        return held

    def _about(self) -> dict[str, Any]:
        """What a checkpoint must agree with."""
        who = [[each.name, each.source, config.to_mapping(each.settings)] for each in self.group]
        return {"frames": self.frames, "seed": self._seed, "saves": len(self._saves), "block": BLOCK, "who": who}
