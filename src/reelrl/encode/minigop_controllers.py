"""Deciding mini-GOP deltas by rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reelrl.encode.minigop import MiniGopEpisode, Situation


class CrfReplay:
    """The same delta for every mini-GOP: 0 leaves the encoder's own pyramid as it is."""

    privileged = False

    def __init__(self, delta: float = 0.0) -> None:
        self.delta = delta

    def reset(self, seed: int, episode: MiniGopEpisode) -> None:
        """Nothing to prepare."""

    def act(self, situation: Situation) -> float:  # noqa: ARG002 - it looks at nothing
        return self.delta
