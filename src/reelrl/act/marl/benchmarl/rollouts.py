"""Batches of steps from many matches: players write their pictures where the learner reads them.

    group 0   act ─► engines run ........ ─► act ─► engines run ........
    group 1          act ─► engines run ........ ─► act ─► engines run

While the engines of one group of matches run, the other one gets its actions. One group alone is the plain way: act,
wait, act.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import numpy as np
import torch
from tensordict import TensorDict

from reelrl.act.doom.env import AUX_FACTS
from reelrl.act.doom.match_batch import MatchBatch, StepEnds
from reelrl.act.doom.shared_memory import COLUMN
from reelrl.act.doom.teacher import TeacherRule
from reelrl.act.marl.benchmarl.frame_rows import ROWS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from reelrl.act.marl.benchmarl.frozen_encoder import EncodeVideo
    from reelrl.act.marl.task_config import DoomTaskConfig

GROUP = "player"
TAUGHT, NOT_TAUGHT = "taught", -1
# What the infos of each player are reduced to, for curves; all else would only fill the batch.
INFO_KEYS = ("kills", "deaths", "frags", "hits", "damage_taken", "health")
_INFO = "all infos"
_INFO_FACTS = ("KILLCOUNT", "DEATHCOUNT", "FRAGCOUNT", "HITCOUNT", "DAMAGE_TAKEN", "HEALTH")
_INFO_COLUMNS = [COLUMN[name] for name in _INFO_FACTS]


Key = tuple[str, ...]
Known = dict[Key, "Tensor"]
"""What players know [matches, players, ...], by its place in a batch; plain, because it is made anew at every step."""


class PlayersPolicy(Protocol):
    """What is known in some matches -> "action", and what else the learner wants to know of it."""

    def __call__(self, known: Known) -> dict[str, Tensor]: ...


class Seen(NamedTuple):
    """What players know before a step, and (matches, players, infos) about them."""

    known: Known
    info: NDArray[np.float32]


class CollectedBatch(NamedTuple):
    """Steps [matches, steps] and, where they have rows of frames and no video, the frames; both in the CPU's memory."""

    steps: TensorDict
    frames: Tensor | None


class Rollouts:
    """Plays N matches, `steps` at a time, in `groups` of them that take turns.

    With `rows_only` a batch has rows of frames for video; with an `encoder` the embeddings in its place. With `taught`
    it also has what the teacher would do, who is told what is on the screen, and who plays the first `shown` matches.
    `episode` is that of `MatchBatch`. Of two sides a batch has side A's steps; an `opponent` plays side B.
    """

    def __init__(
        self,
        settings: DoomTaskConfig,
        seeds: Sequence[int],
        steps: int,
        *,
        video_key: Key,
        groups: int,
        rows_only: bool,
        encoder: EncodeVideo | None,
        device: Any,
        taught: bool = False,
        episode: int | None = None,
        opponent: PlayersPolicy | None = None,
    ) -> None:
        self.settings, self.steps, self.device = settings, steps, device
        self._opponent, self._team = opponent, settings.team_size
        self._stack, self._count = settings.frame_stack, len(seeds)
        self._video_key = video_key
        self._rows_only, self._encoder, self.taught = rows_only, encoder, taught
        slots = self._stack + steps
        self._batch = MatchBatch(
            settings.match_config(),
            seeds,
            slots=slots,
            max_steps=settings.max_steps,
            sightings=taught,
            episode=episode,
        )
        who = settings.num_players, settings.config_path, settings.sides
        self._teachers = [TeacherRule(*who) for _ in seeds] if taught else []
        self._pictures = self._batch.memory.pictures
        self._pictures[: self._stack] = self._pictures[0]  # the first frame is repeated
        self.shown = 0
        self._first_row = np.zeros(self._count, int)  # of each match's episode
        self._returns = np.zeros((self._count, self._team))
        self._places = [part.tolist() for part in np.array_split(range(self._count), min(groups, self._count))]
        self._seen = [self._look(places, 0, None) for places in self._places]
        self._stopped = False

    def collect(self, policy: PlayersPolicy, steps: int = 0) -> CollectedBatch:
        """The next steps of every match; fewer than usual where a number is given."""
        steps = steps or self.steps
        record = _Record(self._count, steps, self._team)
        extra: list[NDArray[np.uint8]] = []  # last pictures of episodes, whose slots go to the first of the next ones
        for step in range(steps):
            for group, places in enumerate(self._places):
                if step:
                    self._finish(group, places, step - 1, record, extra)
                if self._stopped:
                    raise InterruptedError("the collection was stopped")
                self._start(group, places, step, policy, record)
        for group, places in enumerate(self._places):
            self._finish(group, places, steps - 1, record, extra)
        frames = self._frames(extra) if self._rows_only else None
        self._wrap_around(steps)
        return CollectedBatch(record.tensordict(), frames)

    def stop(self) -> None:
        """End the batch under way before its next step, with an InterruptedError."""
        self._stopped = True

    def close(self) -> None:
        self._batch.close()

    def _start(self, group: int, places: list[int], step: int, policy: PlayersPolicy, record: _Record) -> None:
        seen = self._seen[group]
        ours = {key: value[:, : self._team] for key, value in seen.known.items()}
        answer = {name: value.cpu().numpy() for name, value in policy(ours).items()}
        if self._teachers:
            taught = self._taught(places)
            record.put((GROUP, TAUGHT), places, step, taught)
            answer["action"] = np.where(np.array(places)[:, None] < self.shown, taught, answer["action"])
        for name, value in answer.items():
            record.put((GROUP, name), places, step, value)
        self._record_seen((), places, step, seen, self._rows(places, step), record)
        actions = answer["action"]
        if self._opponent is not None:
            theirs = {key: value[:, self._team :] for key, value in seen.known.items()}
            actions = np.concatenate([actions, self._opponent(theirs)["action"].cpu().numpy()], 1)
        self._batch.start(places, actions, self._stack + step)

    def _finish(
        self, group: int, places: list[int], step: int, record: _Record, extra: list[NDArray[np.uint8]]
    ) -> None:
        ends = self._batch.finish(places)
        rows = self._rows(places, step + 1)
        seen = self._look(places, step + 1, self._seen[group])
        done = ends.done
        over = [place for place, is_over in zip(places, done, strict=True) if is_over]
        reward = ends.reward[:, : self._team]
        self._returns[places] += reward
        for index in np.flatnonzero(done) if self._rows_only else ():
            rows[index, -1] = len(self._pictures) * self._count + len(extra)
            extra.append(self._pictures[self._stack + step, places[index], : self._team].copy())
        self._record_seen(("next",), places, step, seen, rows, record)
        record.put_end(places, step, ends, reward, self._returns[places])
        if over:
            self._batch.new_episodes(over, self._stack + step)
            self._first_row[over] = self._stack + step
            self._returns[over] = 0
            for place in over if self._teachers else ():
                self._teachers[place].reset()
            fresh = self._look(over, step + 1, None)
            for key, value in fresh.known.items():
                seen.known[key][torch.from_numpy(done)] = value
            seen.info[done] = fresh.info
        self._seen[group] = seen

    def _taught(self, places: list[int]) -> NDArray[np.int64]:
        memory = self._batch.memory
        taught = [self._teachers[place].act(memory.facts[place], memory.sightings[place]) for place in places]
        return np.array(taught)[:, : self._team]

    def _rows(self, places: list[int], step: int) -> NDArray[np.int64]:
        """(matches, stack): rows of (slots, matches) that are seen before a step."""
        slots = np.maximum(step + np.arange(self._stack), self._first_row[places, None])
        rows: NDArray[np.int64] = slots * self._count + np.asarray(places)[:, None]
        return rows

    def _look(self, places: list[int], step: int, before: Seen | None) -> Seen:
        """What players see before a step; `before` is what they saw a step ago, if that was the same episode."""
        frames = self._pictures.reshape(-1, *self._pictures.shape[2:])[self._rows(places, step)]
        facts = self._batch.facts[places]
        known = {self._video_key: torch.from_numpy(frames).transpose(1, 2).to(self.device)}
        for name in self.settings.aux_observations:
            known[GROUP, "observation", name] = torch.from_numpy(_aux(facts, name, self._team)).to(self.device)
        if self._encoder is not None:
            known = self._encoded(known, before)
        return Seen(known, facts[..., _INFO_COLUMNS].astype(np.float32))

    def _encoded(self, known: Known, before: Seen | None) -> Known:
        now = tensordict_of(known)
        encoder = cast("EncodeVideo", self._encoder)
        done = encoder._reset(now, now) if before is None else encoder._step(tensordict_of(before.known), now)
        return {key: done.get(key) for key in done.keys(True, True)}

    def _record_seen(
        self,
        prefix: tuple[str, ...],
        places: list[int],
        step: int,
        seen: Seen,
        rows: NDArray[np.int64],
        record: _Record,
    ) -> None:
        record.put((*prefix, GROUP, _INFO), places, step, seen.info[:, : self._team])
        for key, value in seen.known.items():
            if not (self._rows_only and key == self._video_key):
                record.put((*prefix, *key), places, step, value[:, : self._team].cpu().numpy())
        if self._rows_only:
            record.put((*prefix, ROWS), places, step, rows)

    def _frames(self, extra: list[NDArray[np.uint8]]) -> Tensor:
        frames = torch.from_numpy(self._pictures[:, :, : self._team]).flatten(0, 1)
        more = torch.from_numpy(np.stack(extra)) if extra else frames[:0]
        return torch.cat([frames, more])

    def _wrap_around(self, steps: int) -> None:
        """What is seen now stands in the first slots, for the next batch."""
        places = list(range(self._count))
        frames = self._pictures.reshape(-1, *self._pictures.shape[2:])[self._rows(places, steps)]
        self._pictures[: self._stack] = frames.swapaxes(0, 1)
        self._first_row[:] = 0


class _Record:
    """Arrays [matches, steps, ...] by key, made when their first value comes."""

    def __init__(self, matches: int, steps: int, players: int) -> None:
        self._shape, self._players = (matches, steps), players
        self._arrays: dict[tuple[str, ...], NDArray[Any]] = {}

    def put(self, key: tuple[str, ...], places: list[int], step: int, values: NDArray[Any]) -> None:
        if key not in self._arrays:
            self._arrays[key] = np.zeros((*self._shape, *values.shape[1:]), values.dtype)
        self._arrays[key][places, step] = values

    def put_end(
        self,
        places: list[int],
        step: int,
        ends: StepEnds,
        rewards: NDArray[np.float64],
        returns: NDArray[np.float64],
    ) -> None:
        """Every player's reward, and the end for all of them."""
        for name, by_player in {"reward": rewards, "episode_reward": returns}.items():
            self.put(("next", GROUP, name), places, step, by_player.astype(np.float32)[..., None])
        for name, value in {"done": ends.done, "terminated": ends.terminated, "truncated": ends.truncated}.items():
            self.put(("next", name), places, step, value[:, None])
            everyone = np.broadcast_to(value[:, None, None], (len(places), self._players, 1))
            self.put(("next", GROUP, name), places, step, everyone)

    def tensordict(self) -> TensorDict:
        for prefix in ((GROUP,), ("next", GROUP)):
            infos = self._arrays.pop((*prefix, _INFO))
            self._arrays |= {(*prefix, "info", name): infos[..., place] for place, name in enumerate(INFO_KEYS)}
        shape = list(self._shape)
        players = [*shape, self._players]

        def nested(prefix: tuple[str, ...], size: list[int]) -> TensorDict:
            inside: dict[str, Any] = {}
            for key, value in self._arrays.items():
                if key[: len(prefix)] == prefix and len(key) == len(prefix) + 1:
                    inside[key[-1]] = torch.from_numpy(value)
            below = {
                key[len(prefix)] for key in self._arrays if key[: len(prefix)] == prefix and len(key) > len(prefix) + 1
            }
            for name in below:
                inside[name] = nested((*prefix, name), shape if name == "next" else players)
            return TensorDict(inside, size)

        return nested((), shape)


def tensordict_of(known: Known) -> TensorDict:
    """The same as torchrl has it: players under their group, observations of several parts in one."""
    shape = list(next(iter(known.values())).shape[:2])
    players = TensorDict({}, shape)
    for key, value in known.items():
        players.set(key[1:], value)
    return TensorDict({GROUP: players}, shape[:1])


def _aux(facts: NDArray[np.float64], name: str, team_size: int) -> NDArray[np.float32]:
    fact = AUX_FACTS[name]
    side = np.arange(facts.shape[-2]) // team_size
    column = np.broadcast_to(side, facts.shape[:-1]) if fact is None else facts[..., COLUMN[fact]]
    return column.astype(np.float32)[..., None]
