"""Matches as tasks of `reelrl.parallel`: played here, in workers or on a cluster; the learner is in one place.

    learner ──► MatchStepsTask: actor, seed, where the match stands ──► its next steps ──► learner

A task says all that its steps follow from: an episode is played in engines of its own, whose seed follows from the
match and the episode's number, and what was done in it so far is in the task. A worker that played the steps before has
the engines still running and goes on; another one starts them and does again what was done, to the same picture. So
steps are the same from everywhere, with up to two players, and a worker that died is replaced by any other.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from reelrl.act.marl.benchmarl.actor_draws import OwnDraws
from reelrl.act.marl.benchmarl.frame_rows import NEXT_ROWS, ROWS
from reelrl.act.marl.benchmarl.frozen_encoder import EncodeVideo
from reelrl.act.marl.benchmarl.rollouts import GROUP, CollectedBatch, Key, Rollouts
from reelrl.act.marl.task_config import DoomTaskConfig
from reelrl.act.video.encoder import ClipShape, read_encoder_settings
from reelrl.parallel import close_at_end, executor
from reelrl.seeding import seed_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from tensordict import TensorDict
    from torch import Tensor

    from reelrl.act.marl.benchmarl.rollouts import Known

CPU = torch.device("cpu")


@dataclass(frozen=True)
class MatchSettings:
    """What all steps of a match have in common; `taught` and `rows_only` as in `Rollouts`."""

    task: DoomTaskConfig
    seed: int
    steps: int
    video_key: Key
    rows_only: bool
    taught: bool


class Standing(NamedTuple):
    """Where a match stands: the number of its episode, and (steps, players) what was done in it so far."""

    episode: int
    actions: NDArray[np.int64]

    def after(self, steps: TensorDict) -> Standing:
        """Where it stands when these were played."""
        actions = np.concatenate([self.actions, steps[GROUP, "action"][0].numpy()])
        ends = np.flatnonzero(steps["next", "done"][0, :, 0].numpy()) + len(self.actions) + 1
        return Standing(self.episode + len(ends), actions[ends[-1] if len(ends) else 0 :])

    def is_that_of(self, other: Standing) -> bool:
        return self.episode == other.episode and np.array_equal(self.actions, other.actions)


@dataclass(frozen=True, eq=False)
class MatchStepsTask:
    """The next steps of match `number`, played by `actor` with chance from `draws`, or `shown` by the teacher."""

    number: int
    settings: MatchSettings
    standing: Standing
    actor: Any
    draws: int
    shown: bool = False


class MatchRollouts:
    """N matches, each a task at every batch; in the place of `Rollouts`, for an actor with scores."""

    def __init__(self, matches: Sequence[MatchSettings], jobs: int) -> None:
        self.taught, self.shown = matches[0].taught, 0
        self._matches = list(matches)
        none = np.zeros((0, matches[0].task.num_players), np.int64)
        self._standings = [Standing(0, none) for _ in matches]
        self._work = executor(jobs, restarts=2)

    def collect(self, policy: OwnDraws) -> CollectedBatch:
        """The next steps of every match."""
        seed, actor = policy.seed(), copy.deepcopy(policy.actor).to(CPU)
        tasks = [
            MatchStepsTask(number, settings, standing, actor, seed_for(seed, "match", number), number < self.shown)
            for number, (settings, standing) in enumerate(zip(self._matches, self._standings, strict=True))
        ]
        batches = list(self._work.map(play, tasks, name=_name, near=lambda task: task.number))
        if len(batches) < len(tasks):
            raise InterruptedError("the collection was stopped")
        self._standings = [task.standing.after(batch.steps) for task, batch in zip(tasks, batches, strict=True)]
        return joined(batches)

    def stop(self) -> None:
        """Begin no more matches of the batch under way."""
        self._work.stop()

    def close(self) -> None:
        self._work.close()
        close_matches()


def joined(batches: Sequence[CollectedBatch]) -> CollectedBatch:
    """The matches of several batches in one; rows are those of all frames together."""
    before, frames = 0, [batch.frames for batch in batches if batch.frames is not None]
    for batch, its_frames in zip(batches, frames, strict=False):
        for key in (ROWS, NEXT_ROWS):
            batch.steps.set(key, batch.steps.get(key) + before)
        before += len(its_frames)
    steps: TensorDict = torch.cat([batch.steps for batch in batches])
    return CollectedBatch(steps, torch.cat(frames) if frames else None)


# -- where a task is done ----------------------------------------------------------------------------------------------


@dataclass
class _HeldMatch:
    settings: MatchSettings
    standing: Standing
    rollouts: Rollouts


_held: dict[int, _HeldMatch] = {}
"""Matches whose engines run in this process, by number."""


def play(task: MatchStepsTask) -> CollectedBatch:
    """The steps; the match goes on from here when its next task comes to this process."""
    held = _held.pop(task.number, None)
    if held is None or held.settings != task.settings or not held.standing.is_that_of(task.standing):
        if held is not None:
            held.rollouts.close()
        held = _HeldMatch(task.settings, task.standing, _brought_to(task.settings, task.standing))
    held.rollouts.shown = int(task.shown)
    try:
        batch = held.rollouts.collect(OwnDraws(task.actor, task.draws, CPU))
    except BaseException:
        held.rollouts.close()
        raise
    held.standing = task.standing.after(batch.steps)
    _held[task.number] = held
    close_at_end(close_matches)
    return batch


def close_matches() -> None:
    """End the engines that run in this process."""
    while _held:
        _held.popitem()[1].rollouts.close()


def _brought_to(settings: MatchSettings, standing: Standing) -> Rollouts:
    """New engines in which the episode is where it stands."""
    rollouts = Rollouts(
        settings.task,
        [settings.seed],
        settings.steps,
        video_key=settings.video_key,
        groups=1,
        rows_only=settings.rows_only,
        encoder=_encoder(settings),
        device=CPU,
        taught=settings.taught,
        episode=standing.episode,
    )
    try:
        for first in range(0, len(standing.actions), settings.steps):
            again = standing.actions[first : first + settings.steps]
            rollouts.collect(_Again(again), len(again))
    except BaseException:
        rollouts.close()
        raise
    return rollouts


class _Again:
    """Does what was done before."""

    def __init__(self, actions: NDArray[np.int64]) -> None:
        self._left = iter(torch.from_numpy(actions))

    def __call__(self, known: Known) -> dict[str, Tensor]:
        del known
        return {"action": next(self._left)[None]}


def _encoder(settings: MatchSettings) -> EncodeVideo | None:
    """The frozen encoder, where the task names one."""
    task = settings.task
    if task.frozen_encoder is None:
        return None
    clip = ClipShape(task.frame_stack, 3, *task.picture_size)
    return EncodeVideo(read_encoder_settings(task.frozen_encoder), settings.video_key, clip, CPU)


def _name(task: MatchStepsTask) -> str:
    return f"match {task.number}"
