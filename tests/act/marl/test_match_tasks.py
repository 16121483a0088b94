"""Matches as tasks: the same steps whether the engines of the last batch are still there or must be brought back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from reelrl.act.marl import settings as doom_training
from reelrl.act.marl.benchmarl import match_tasks
from reelrl.act.marl.benchmarl.frame_rows import NEXT_ROWS, ROWS, BatchFrames
from reelrl.act.marl.benchmarl.match_tasks import MatchSettings, MatchStepsTask, Standing
from reelrl.act.marl.benchmarl.parts import Parts
from reelrl.act.marl.benchmarl.rollouts import GROUP, CollectedBatch
from reelrl.act.marl.task_config import DoomTaskConfig
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

VIDEO = (GROUP, "observation")


class ByBrightness:
    """An actor whose scores follow from every pixel."""

    def scores(self, known: dict[Any, torch.Tensor]) -> torch.Tensor:
        levels = known[VIDEO].float().mean((-3, -2, -1)).sum(-1, keepdim=True)
        return torch.sin(levels * torch.arange(1.0, 9.0))


@pytest.fixture
def engines() -> Iterator[None]:
    yield
    match_tasks.close_matches()


@pytest.mark.slow
@pytest.mark.usefixtures("engines")
def test_a_match_that_another_worker_goes_on_with_has_the_same_steps() -> None:
    task = DoomTaskConfig(num_players=2, observation_size=(12, 16), frame_stack=2, max_steps=5)
    settings = MatchSettings(task, 7, 4, VIDEO, rows_only=True, taught=False)
    first = MatchStepsTask(0, settings, Standing(0, np.zeros((0, 2), np.int64)), ByBrightness(), 1)
    standing = first.standing.after(match_tasks.play(first).steps)
    assert (standing.episode, len(standing.actions)) == (0, 4)
    second = replace(first, standing=standing, draws=2)
    here = match_tasks.play(second)
    after = standing.after(here.steps)
    assert (after.episode, len(after.actions)) == (1, 3)
    match_tasks.close_matches()
    elsewhere = match_tasks.play(second)
    assert here.frames is not None
    assert elsewhere.frames is not None
    for rows in (ROWS, NEXT_ROWS):  # frames that no row names may be others
        assert torch.equal(*(each.frames[each.steps.get(rows).flatten()] for each in (here, elsewhere)))  # type: ignore[index]
    for key in here.steps.keys(include_nested=True, leaves_only=True):
        assert torch.equal(here.steps.get(key), elsewhere.steps.get(key)), key


def test_where_a_match_stands_is_what_was_done_since_the_last_end() -> None:
    def steps(actions: list[int], ends: list[int]) -> TensorDict:
        done = torch.zeros(1, len(actions), 1, dtype=torch.bool)
        done[0, ends] = True
        players = TensorDict({"action": torch.tensor(actions)[None, :, None].expand(1, -1, 2)}, [1, len(actions), 2])
        return TensorDict({GROUP: players, "next": TensorDict({"done": done}, [1, len(actions)])}, [1, len(actions)])

    standing = Standing(0, np.zeros((0, 2), np.int64)).after(steps([1, 2, 3], []))
    assert (standing.episode, standing.actions[:, 0].tolist()) == (0, [1, 2, 3])
    standing = standing.after(steps([4, 5, 6], [0, 1]))
    assert (standing.episode, standing.actions[:, 1].tolist()) == (2, [6])
    assert standing.is_that_of(Standing(2, np.array([[6, 6]])))
    assert not standing.is_that_of(Standing(1, np.array([[6, 6]])))


def test_rows_of_several_matches_are_those_of_all_frames_together() -> None:
    def batch(first: int, frames: int) -> CollectedBatch:
        rows = torch.arange(4).reshape(1, 2, 2) % frames
        steps = TensorDict({ROWS: rows, "next": TensorDict({ROWS: rows}, [1, 2])}, [1, 2])
        return CollectedBatch(
            steps, torch.arange(first, first + frames)[:, None, None, None, None].expand(-1, 2, 3, 1, 1)
        )

    parts = [batch(0, 3), batch(10, 4)]
    alone = []
    for part in parts:
        frames = BatchFrames(VIDEO)
        frames.frames = part.frames if part.frames is not None else torch.empty(0)
        alone.append(frames.stacked(part.steps.get(ROWS)))
    joined = match_tasks.joined(parts)
    frames = BatchFrames(VIDEO)
    frames.frames = joined.frames if joined.frames is not None else torch.empty(0)
    assert torch.equal(frames.stacked(joined.steps.get(ROWS)), torch.cat(alone))
    assert torch.equal(frames.stacked(joined.steps.get(NEXT_ROWS)), torch.cat(alone))


def test_an_algorithm_that_explores_in_the_learner_is_refused() -> None:
    settings = doom_training.load(algorithm_name="vdn")
    spread = replace(settings, collection=replace(settings.collection, spread=True))
    with pytest.raises(ConfigError, match="vdn explores in the learner's process"):
        Parts(spread)
