"""BOLA-E: BOLA with a placeholder buffer and the insufficient-buffer rule (Spiteri, Sitaraman, Sparacio, 2018).

BOLA alone starts at the lowest rung and climbs as the buffer fills. BOLA-E starts at the rung that the throughput
carries and adds a *placeholder*, seconds that are not there, so that BOLA agrees with that choice; later it shrinks or
grows so that BOLA would have made the choice that was made. Since the placeholder cannot be played, a second rule
limits the rung to what is sure to arrive before the real buffer is empty. After Sabre's form of it; two of Sabre's
actions have no counterpart here: a player cannot wait of its own accord, nor abandon a download.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reelrl.errors import ConfigError
from reelrl.stream.controllers.bola_levels import BolaLevels
from reelrl.stream.controllers.protocol import SmoothedRate, highest_below, view

if TYPE_CHECKING:
    from reelrl.stream.controllers.protocol import EpisodeInfo, Observation, View

FIRST_SAFETY, LEAST_SAFETY, SAFETY_DECAY = 0.9, 0.5, 0.9


class BolaE:
    """`buffer_s` is the buffer at which the highest rung is chosen.

    Above what the throughput carries BOLA-E climbs one rung at a time; with `steady` it does not climb there at all
    (BOLA-O).
    """

    privileged = False

    def __init__(self, buffer_s: float = 25.0, steady: bool = False) -> None:
        if not buffer_s > 0:
            raise ConfigError(f"bola-e({buffer_s}): buffer_s is the buffer that the player means to hold; above 0")
        self.buffer_s = buffer_s
        self.steady = steady

    def reset(self, seed: int, episode: EpisodeInfo) -> None:  # noqa: ARG002 - the protocol's
        """Take the ladder; forget throughputs and placeholder."""
        self._video = episode.video
        self._levels = BolaLevels.of(episode.video.bitrates_kbps, self.buffer_s)
        self._rate = SmoothedRate()
        self._placeholder_s = 0.0
        self._safety = FIRST_SAFETY
        self._started = False

    def act(self, observation: Observation) -> int:
        """The rung."""
        seen = view(observation, self._video)
        self._rate.push(float(seen.throughputs[-1]), seen.download_s)
        kbps = self._rate.bytes_per_s / 125.0
        carried = highest_below(self._levels.rates, kbps)
        if not self._started:
            self._started = True
            self._placeholder_s = max(self._levels.least(carried) - seen.buffer_s, 0.0)
            return carried
        self._placeholder_s = self._after_download(seen)
        rung = self._levels.rung_at(seen.buffer_s + self._placeholder_s)
        if rung > max(seen.last_rung, carried):
            rung = max(seen.last_rung, carried) + (not self.steady)
        surplus_s = max(seen.buffer_s + self._placeholder_s - self._levels.most(rung), 0.0)
        self._placeholder_s = max(self._placeholder_s - surplus_s, 0.0)
        return self._sure(rung, seen.buffer_s, kbps)

    def reason(self) -> dict[str, Any]:
        """Its average of throughputs."""
        return {"estimate_kbps": self._rate.bytes_per_s / 125.0}

    def _after_download(self, seen: View) -> float:
        """The placeholder with which BOLA would have chosen the last rung; then what the player slept."""
        level_s = seen.buffer_s + seen.slept_s + seen.download_s
        most_s = max(self._levels.most(seen.last_rung) - level_s, 0.0)
        least_s = self._levels.least(seen.last_rung) - level_s
        return max(min(self._placeholder_s, most_s), least_s) + seen.slept_s

    def _sure(self, rung: int, buffer_s: float, kbps: float) -> int:
        """The insufficient-buffer rule: no more than `safety` of what the link carries until the buffer is empty."""
        sure_kbit = self._safety * buffer_s * kbps
        self._safety = max(self._safety * SAFETY_DECAY, LEAST_SAFETY)
        limit = highest_below(self._levels.rates * self._video.chunk_s, sure_kbit)
        if limit < rung:
            rung = limit
            self._placeholder_s = min(max(self._levels.least(rung) - buffer_s, 0.0), self._placeholder_s)
        return rung
