"""Controllers that need no planning and no learning: fixed, rate based, HYB, BBA, BOLA."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from reelrl.errors import ConfigError
from reelrl.stream.controllers.protocol import harmonic_mean, highest_below, view

if TYPE_CHECKING:
    from reelrl.stream.controllers.protocol import EpisodeInfo, Observation


class Fixed:
    """Always the same rung; the lowest unless told otherwise. Negative rungs count from the top."""

    privileged = False

    def __init__(self, rung: int = 0) -> None:
        self.rung = rung
        self._rung = rung

    def reset(self, seed: int, episode: EpisodeInfo) -> None:  # noqa: ARG002 - the protocol's
        """Check the rung against the ladder."""
        rungs = episode.video.rungs
        if not -rungs <= self.rung < rungs:
            raise ConfigError(f"rung = {self.rung}; the ladder has {rungs}, choose 0 to {rungs - 1}")
        self._rung = self.rung % rungs

    def act(self, observation: Observation) -> int:  # noqa: ARG002 - the protocol's
        """The rung."""
        return self._rung


class RateBased:
    """The highest rung below the harmonic mean of recent throughputs."""

    privileged = False

    def __init__(self, last: int = 5, safety: float = 1.0) -> None:
        if last < 1 or not safety > 0:
            raise ConfigError(f"rate({last},{safety}): the mean is over 1 or more chunks, times something above 0")
        self.last = last
        self.safety = safety

    def reset(self, seed: int, episode: EpisodeInfo) -> None:  # noqa: ARG002 - the protocol's
        """Take the ladder."""
        self._video = episode.video

    def act(self, observation: Observation) -> int:
        """The rung."""
        kbps = self.safety * harmonic_mean(view(observation, self._video).throughputs, self.last) / 125.0
        return highest_below(self._video.bitrates_kbps, kbps)


class Hyb:
    """HYB: the highest rung that arrives, at the rate of the last five chunks, within a share of the buffer.

    The rule that Oboe (SIGCOMM 2018) tunes: size / rate < `share` * buffer. A quarter is the share that Oboe names as
    deployed.
    """

    privileged = False

    def __init__(self, share: float = 0.25) -> None:
        if not 0 < share <= 1:
            raise ConfigError(f"hyb({share}): the download may take a share of the buffer, above 0 and at most 1")
        self.share = share

    def reset(self, seed: int, episode: EpisodeInfo) -> None:  # noqa: ARG002 - the protocol's
        """Take the ladder."""
        self._video = episode.video

    def act(self, observation: Observation) -> int:
        """The rung."""
        seen = view(observation, self._video)
        sizes = self._video.sizes_bytes[min(seen.next_chunk, self._video.chunks - 1)]
        fits = np.flatnonzero(sizes < self.share * seen.buffer_s * harmonic_mean(seen.throughputs))
        return int(fits[-1]) if len(fits) else 0


class Bba:
    """Buffer based: the lowest rung below the reservoir, the highest above the cushion, a straight line between."""

    privileged = False

    def __init__(self, reservoir_s: float = 10.0, cushion_s: float = 20.0) -> None:
        if reservoir_s < 0 or cushion_s <= 0:
            raise ConfigError(f"reservoir {reservoir_s} s, cushion {cushion_s} s; they are 0 or more, and above 0")
        self.reservoir_s = reservoir_s
        self.cushion_s = cushion_s

    def reset(self, seed: int, episode: EpisodeInfo) -> None:  # noqa: ARG002 - the protocol's
        """Take the ladder."""
        self._video = episode.video

    def act(self, observation: Observation) -> int:
        """The rung."""
        top = self._video.rungs - 1
        share = (view(observation, self._video).buffer_s - self.reservoir_s) / self.cushion_s
        return int(top * min(max(share, 0.0), 1.0))


class Bola:
    """BOLA: maximises (V (utility + gp) - buffer) / size, in the form that dash.js uses.

    `stable_s` is the buffer at which the highest rung is chosen. Utilities are logarithms of the next chunk's real
    sizes, or of the nominal rates with `nominal=True`.
    """

    privileged = False
    MINIMUM_S = 10.0

    def __init__(self, stable_s: float = 30.0, nominal: bool = False) -> None:
        if stable_s <= self.MINIMUM_S:
            raise ConfigError(f"stable_s = {stable_s}; it must be above {self.MINIMUM_S:g} s")
        self.stable_s = stable_s
        self.nominal = nominal

    def reset(self, seed: int, episode: EpisodeInfo) -> None:  # noqa: ARG002 - the protocol's
        """Take the ladder."""
        self._video = episode.video

    def act(self, observation: Observation) -> int:
        """The rung."""
        seen = view(observation, self._video)
        chunk = min(seen.next_chunk, self._video.chunks - 1)
        sizes = self._video.bitrates_kbps if self.nominal else self._video.sizes_bytes[chunk]
        utilities = 1.0 + np.log(sizes / sizes[0])
        if not utilities[-1] > 1.0:
            return 0
        gp = (utilities[-1] - 1.0) / (self.stable_s / self.MINIMUM_S - 1.0)
        scores = (self.MINIMUM_S / gp * (utilities + gp) - seen.buffer_s) / sizes
        best = int(np.argmax(scores))
        return best if math.isfinite(scores[best]) else 0
