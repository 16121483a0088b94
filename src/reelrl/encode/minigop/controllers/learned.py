"""A trained mini-GOP policy as a controller: loaded from a run or a file without running its code, in plain numpy.

    controller = load_minigop_controller("runs/0007")  # or a name, a .safetensors or .json file, "my_pkg.mine:Policy"
    run = run_controller(open_source(clip, kbps=300), controller)

The policy was trained to correct another controller, its base; what it decides is added to the base's delta.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reelrl.encode.minigop.controllers.imitation import Imitation
from reelrl.encode.minigop.protocols import possible_delta
from reelrl.encode.minigop.state import NAMES, observation
from reelrl.encode.minigop.weights import SAC
from reelrl.errors import CheckpointError, ConfigError
from reelrl.file_trust import files_are_trusted
from reelrl.names import MINIGOP_CONTROLLERS, make_controller, names_a_file
from reelrl.runs import policy_file

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.encode.minigop.protocols import MiniGopController, MiniGopEpisode, Situation


class LearnedMiniGop:
    """The decisions of a policy that `reel train minigop` saved."""

    privileged = False

    def __init__(self, place: str | Path, corrected_by: tuple[Path, ...] = ()) -> None:
        self.path = policy_file.find(place)
        if self.path in corrected_by:
            raise CheckpointError(f"{self.path} corrects itself, by way of its `base`; train it anew")
        self.policy = policy_file.load(self.path)
        facts = self.policy.facts
        if facts.get("stage") != "minigop" or self.policy.choices != 1:
            raise CheckpointError(f"{self.path} is no mini-GOP policy; give one that `reel train minigop` saved")
        if facts.get("sees") != list(NAMES):
            raise CheckpointError(
                f"{self.path} sees other things than this version shows it (it has {len(facts.get('sees') or ())} "
                f"inputs, {len(NAMES)} are there); train it anew"
            )
        self.max_delta = policy_file.number_of(facts, "max_delta", self.path)
        if "base" not in facts:
            raise CheckpointError(f"{self.path} does not say whom it corrects (`base`); train it anew")
        self.base = self._base_of(facts["base"], (*corrected_by, self.path))

    def _base_of(self, name: Any, corrected_by: tuple[Path, ...]) -> MiniGopController | None:
        """The controller that is corrected: one of ours, or what a trusted file names."""
        if name is None:
            return None
        try:
            if files_are_trusted() and isinstance(name, str):
                return load_minigop_controller(name, corrected_by)
            base: MiniGopController = make_controller(MINIGOP_CONTROLLERS, name)
        except ConfigError as error:
            raise CheckpointError(f"{self.path} corrects a controller that cannot be had: {error}") from error
        return base

    def reset(self, seed: int, episode: MiniGopEpisode) -> None:
        if self.base is not None:
            self.base.reset(seed, episode)

    def act(self, situation: Situation) -> float:
        guide = 0.0 if self.base is None else float(self.base.act(situation))
        delta = guide + self.max_delta * float(self.policy.act(observation(situation, guide))[0])
        return possible_delta(delta)


class ShippedMiniGop(LearnedMiniGop):
    """The agent that ships with the package: constrained SAC over the rate model."""

    def __init__(self) -> None:
        super().__init__(SAC)


def load_minigop_controller(name: str, corrected_by: tuple[Path, ...] = ()) -> MiniGopController:
    """A controller of mini-GOPs by name, by run folder or file (a policy, a fitted rule), or as "package.module:Class".

    Arguments may follow in brackets: "crf-replay(2)".
    """
    if names_a_file(MINIGOP_CONTROLLERS, name):
        return Imitation.load(name) if name.endswith(".json") else LearnedMiniGop(name, corrected_by)
    controller: MiniGopController = make_controller(MINIGOP_CONTROLLERS, name, foreign=True)
    return controller
