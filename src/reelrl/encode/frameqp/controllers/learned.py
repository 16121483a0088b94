"""An agent over frames that `reel fit frameqp-sac` made: its action is added to what the rule says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reelrl.encode.frameqp.controllers.rules import FrameRateModel
from reelrl.encode.frameqp.state import NAMES, observation
from reelrl.errors import CheckpointError
from reelrl.runs import policy_file

if TYPE_CHECKING:
    from reelrl.encode.frameqp.protocols import FrameQpEpisode, FrameSituation
    from reelrl.runs.policy_file import Policy


class LearnedFrames:
    """The rule, and what a net adds to it."""

    privileged = False

    def __init__(self, policy: Policy, path: str | Path = "the policy") -> None:
        self.policy, self.facts = policy, policy.facts
        if self.facts.get("stage") != "frameqp" or self.facts.get("sees") != list(NAMES):
            raise CheckpointError(
                f"a policy of stage {self.facts.get('stage')!r} that sees {policy.inputs} numbers; frames show "
                f"{len(NAMES)}: train one with `reel fit frameqp-sac`"
            )
        self._guide, self._max_steps = FrameRateModel(), policy_file.number_of(self.facts, "max_steps", Path(path))

    @classmethod
    def load(cls, path: str | Path) -> LearnedFrames:
        return cls(policy_file.load(path), path)

    def reset(self, seed: int, episode: FrameQpEpisode) -> None:
        self._guide.reset(seed, episode)

    def act(self, situation: FrameSituation) -> float:
        guided = self._guide.act(situation)
        return guided + self._max_steps * float(self.policy.act(observation(situation, guided))[0])
