"""Agents that ship with the package, by name: no file is asked for."""

from __future__ import annotations

from reelrl.encode.frameqp.controllers.evolved import EvolvedShape
from reelrl.encode.frameqp.controllers.learned import LearnedFrames
from reelrl.encode.frameqp.weights import EVOLVED, SAC
from reelrl.runs import policy_file


class ShippedShape(EvolvedShape):
    """The linear rule that evolution found."""

    def __init__(self) -> None:
        found = EvolvedShape.load(EVOLVED)
        super().__init__(found.weights.tolist(), found.facts)


class ShippedSac(LearnedFrames):
    """The agent that constrained SAC trained."""

    def __init__(self) -> None:
        super().__init__(policy_file.load(SAC))
