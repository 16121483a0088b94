"""`StreamingPlayers`: one moment in, one update, one action out, next moment, for one player or several side by side.

    moments ──► observation (autoencoders learn the pictures) ──► learner: learn, then choose ──► actions

Players side by side have the same settings and as many actions, and each learns what it would learn alone: other games,
other seeds. A step is a fixed sequence of device work, on a GPU one CUDA graph; the actions are all that the host asks
for. Here is what lasts from moment to moment, and how it is saved.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from reelrl.act.atari.actor_critic import ActorCriticLambda
from reelrl.act.atari.moments import RewardScale
from reelrl.act.atari.observation import Observer
from reelrl.act.atari.q_lambda import QLambda
from reelrl.errors import CheckpointError
from reelrl.see.execution import Recording, make_streams, shares_of, side_by_side
from reelrl.see.frames.source import to_input
from reelrl.see.learner import StreamingAutoEncoder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from reelrl.act.atari.settings import PlayerSettings
    from reelrl.content.games.kinds import GameFacts, Moment
    from reelrl.see.result import Embeddings, LearnResult
    from reelrl.see.settings import AutoEncoderSettings

FIGURES = ("td_error", "value", "reward", "scaled_reward", "exploration")
"""Of one step; `exploration` is the share of random actions, or the entropy of the policy."""


class StepResult(NamedTuple):
    """FIGURES [players, 5] of one step on the device, the actions, and what autoencoders made of the pictures.

    Where the step is a CUDA graph the next one overwrites the tensors.
    """

    figures: Tensor
    actions: list[int]
    pictures: list[LearnResult]


class PlayerMoments(NamedTuple):
    """A moment of each player. Pictures are [some, height, width, 3], one array for players in a row of one size."""

    pictures: list[NDArray[np.uint8]]
    numbers: NDArray[np.float32]
    rewards: list[float]
    terminated: list[bool]
    began: list[bool]
    """Whether it is the first of an episode; the action after an episode's last moment is not to be taken."""

    @classmethod
    def of(cls, moments: Sequence[Moment], began: Sequence[bool]) -> PlayerMoments:
        drawn = [moment.picture for moment in moments if moment.picture is not None]
        return cls(
            [np.stack(list(group)) for _, group in groupby(drawn, lambda picture: picture.shape)],
            np.stack([moment.numbers for moment in moments]),
            [moment.reward for moment in moments],
            [moment.terminated for moment in moments],
            list(began),
        )


class StreamingPlayers(nn.Module):
    """A player per seed, what each remembers of its stream, its optimiser, and the autoencoder beside it, if any."""

    def __init__(
        self,
        settings: PlayerSettings,
        facts: GameFacts,
        seeds: Sequence[int] | None = None,
        device: str | torch.device = "cpu",
    ) -> None:
        super().__init__()
        self.settings, self.facts = settings, facts
        self.seeds = [settings.seed] if seeds is None else list(seeds)
        self.observer = Observer(settings, facts.numbers, len(self.seeds)).to(device)
        kind = QLambda if settings.algorithm == "q" else ActorCriticLambda
        self.learner: QLambda | ActorCriticLambda = kind(
            settings, self.observer.shapes, facts.actions, self.seeds, device
        )
        self.reward_scale = RewardScale(len(self.seeds), settings.gamma).to(device)
        self.frames_seen = 0
        # No parts of this module: they have a state of their own, and learn by themselves.
        self._autoencoders = [StreamingAutoEncoder(each, device) for each in self._watchers()]
        graph = self.device.type == "cuda" and settings.step == "auto"
        compiled = settings.autoencoder.step.startswith("compiled")
        self._shares = shares_of(self._autoencoders, compiled=compiled, graph=graph)
        self._streams = make_streams(len(self._shares)) if graph else []
        self._recording: Recording[tuple[Tensor, list[LearnResult]]] | None = Recording(self._work) if graph else None
        self._stream = make_streams(1)[0] if graph else None
        self._take([torch.empty(0), torch.empty(0)])
        self._result: tuple[Tensor, list[LearnResult]] = torch.empty(0), []

    def _watchers(self) -> list[AutoEncoderSettings]:
        """A player's autoencoder starts from its own weights too."""
        own, first = self.settings.autoencoder, self.settings.seed
        return [replace(own, seed=own.seed + seed - first) for seed in self.seeds] if self.settings.watches else []

    @property
    def device(self) -> torch.device:
        return self.learner.value.device

    @property
    def autoencoder(self) -> StreamingAutoEncoder | None:
        """Of the first player."""
        return self._autoencoders[0] if self._autoencoders else None

    def step(self, moments: PlayerMoments, chance: NDArray[np.float64]) -> StepResult:
        """Learn from a moment each and choose an action in it, by two random numbers in [0, 1) each: [players, 2]."""
        self.begin_step(moments, chance)
        return self.end_step()

    def begin_step(self, moments: PlayerMoments, chance: NDArray[np.float64]) -> None:
        """The first half of `step`: on a GPU the work is under way, and may run beside that of other players."""
        epsilon = self.settings.epsilon_at(self.frames_seen)
        given = np.empty((len(self.seeds), 6), np.float32)
        given[:, 0], given[:, 1], given[:, 2] = moments.rewards, moments.terminated, moments.began
        given[:, 3], given[:, 4:] = epsilon, chance
        arrays: list[NDArray[Any]] = [*moments.pictures, moments.numbers, given]
        if self._recording is None:
            self._take([torch.from_numpy(array).to(self.device) for array in arrays])
            self._result = self._work()
        else:
            with torch.cuda.stream(self._stream):
                self._take(self._in_place(arrays))
                self._result = self._recording(self)
        self.frames_seen += 1
        for each in self._autoencoders:
            each.frames_seen += 1

    def end_step(self) -> StepResult:
        """The second half of `step`: waits for the actions."""
        if self._stream is not None:
            self._stream.synchronize()
        figures, pictures = self._result
        return StepResult(figures, self.learner.action.tolist(), pictures)

    def _in_place(self, arrays: Sequence[NDArray[Any]]) -> list[Tensor]:
        """What the host gives, copied to where the recorded step finds it."""
        given = [torch.from_numpy(array) for array in arrays]
        held = [*self._pictures, self._numbers, self._given]
        if [each.shape for each in held] != [each.shape for each in given]:
            held = [torch.empty_like(each, device=self.device) for each in given]
            if self._recording is not None:
                self._recording.forget()
        for place, each in zip(held, given, strict=True):
            place.copy_(each, non_blocking=True)
        return held

    def _take(self, given: Sequence[Tensor]) -> None:
        *self._pictures, self._numbers, self._given = given

    def _work(self) -> tuple[Tensor, list[LearnResult]]:
        """A step on the device, which never asks for a value; the actions are in `learner.action`."""
        reward, terminated, began, epsilon = self._given[:, :4].unbind(1)
        results: list[LearnResult] = []
        embeddings: Embeddings | None = None
        if self._shares:
            frames = [picture.permute(2, 0, 1) for group in self._pictures for picture in group]
            results = side_by_side(self._shares, frames, list(began), self._streams)
            fine, middle, coarse = (torch.cat(each) for each in zip(*(one.embeddings for one in results), strict=True))
            embeddings = fine, middle, coarse
        parts = self.observer(self._pictures, self._numbers, embeddings, began)
        scaled = self.reward_scale(reward, began) if self.settings.scale_rewards else reward
        error = self.learner.learn(parts, scaled, 1.0 - terminated, began)
        exploration = self.learner.choose(parts, began, epsilon, self._given[:, 4:])
        return torch.stack([error, self.learner.value, reward, scaled, exploration], 1), results

    def play(self, moments: PlayerMoments, chance: NDArray[np.float64]) -> list[int]:
        """Actions in moments, by two random numbers each; neither weights nor what normalises change any more."""
        began = torch.tensor(moments.began, dtype=torch.float32, device=self.device)
        pictures = [torch.from_numpy(each).to(self.device) for each in moments.pictures]
        embeddings: Embeddings | None = None
        if self._autoencoders:
            frames = [to_input(picture.permute(2, 0, 1)) for group in pictures for picture in group]
            with torch.no_grad():
                codes = [each.encode(frame) for each, frame in zip(self._autoencoders, frames, strict=True)]
            fine, middle, coarse = (torch.cat(each) for each in zip(*codes, strict=True))
            embeddings = fine, middle, coarse
        parts = self.observer(
            pictures, torch.from_numpy(moments.numbers).to(self.device), embeddings, began, adds=False
        )
        drawn = torch.tensor(chance, dtype=torch.float32, device=self.device)
        actions: list[int] = self.learner.play(parts, drawn).tolist()
        return actions

    def look(self) -> tuple[list[float], NDArray[np.float32] | None]:
        """The first player's value or probability of each action, and how much each place it sees matters to the best.

        The latter is the size of the gradient there, at most 1, [height, width]; None where it sees numbers.
        """
        parts = {name: part.clone().requires_grad_() for name, part in self.observer.parts().items()}
        preferences = self.learner.preferences(parts)[0]
        places = [part for part in parts.values() if part.dim() == 4]
        if not places:
            return preferences.tolist(), None
        (gradient,) = torch.autograd.grad(preferences.max(), places[:1])
        size = gradient[0].abs().sum(0)
        return preferences.tolist(), (size / size.max().clamp(min=1e-12)).cpu().numpy()

    def training_state(self) -> dict[str, Tensor | int]:
        """Copies of everything that a bit-exact continuation needs, by name."""
        state: dict[str, Tensor | int] = {f"player.{name}": value.clone() for name, value in self.state_dict().items()}
        for number, each in enumerate(self._autoencoders):
            state |= {f"autoencoder.{number}.{name}": value for name, value in each.training_state().items()}
        return state | {"frames_seen": self.frames_seen}

    def load_training_state(self, state: Mapping[str, Tensor | int]) -> None:
        """Go on where `training_state` was taken; settings and games must be the same."""
        self._load(state)
        for number, each in enumerate(self._autoencoders):
            each.load_training_state(below(state, f"autoencoder.{number}."))

    def rewind(self, state: Mapping[str, Tensor | int]) -> None:
        """Go back to `state`, taken earlier from these very players."""
        self._load(state)
        for number, each in enumerate(self._autoencoders):
            each.rewind(below(state, f"autoencoder.{number}."))

    def _load(self, state: Mapping[str, Tensor | int]) -> None:
        tensors, own = below(state, "player."), self.state_dict()
        wrong = sorted(own.keys() ^ tensors.keys()) or [name for name in own if own[name].shape != tensors[name].shape]
        if wrong or "frames_seen" not in state:
            raise CheckpointError(
                f"the training state does not fit this player ({len(wrong)} names differ, such as "
                f"{[*wrong, 'frames_seen'][0]!r}); resume with the settings it was saved with"
            )
        self.load_state_dict(tensors)
        self.frames_seen = int(state["frames_seen"])


def one_of(state: Mapping[str, Tensor | int], player: int) -> dict[str, Tensor | int]:
    """The training state of one of several players, as if it had learned alone."""
    alone: dict[str, Tensor | int] = {}
    for name, value in state.items():
        if name.startswith("autoencoder."):
            if name.startswith(own := f"autoencoder.{player}."):
                alone[f"autoencoder.0.{name.removeprefix(own)}"] = value
        else:
            alone[name] = value[player : player + 1] if isinstance(value, Tensor) else value
    return alone


def below(state: Mapping[str, Tensor | int], prefix: str) -> dict[str, Tensor]:
    """What is under a prefix, by the rest of its name."""
    return {
        name.removeprefix(prefix): torch.as_tensor(value) for name, value in state.items() if name.startswith(prefix)
    }
