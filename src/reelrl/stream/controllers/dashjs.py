"""What dash.js 5 decides with its default settings, as a simulation.

    buffer below 18 s: throughput rule     the rung that 0.9 of the average throughput carries
    from 18 s on, until below 9 s: BOLA    with a placeholder buffer, never climbing above what is carried (BOLA-O)
    always: insufficient buffer            what 0.7 of the throughput brings before the buffer is empty
            switch history                 a rung that was left downwards too often is not asked for again

The lowest of these wins. Left out is what depends on a browser: requests are not abandoned, frames are not dropped, and
the player downloads as far ahead as the simulator lets it (dash.js itself stops at 18 s, or 30 s on the highest rung).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.errors import ConfigError
from reelrl.stream.controllers.bola_levels import BolaLevels
from reelrl.stream.controllers.protocol import SmoothedRate, highest_below, view

if TYPE_CHECKING:
    from reelrl.stream.controllers.protocol import EpisodeInfo, Observation, View

SAFETY = 0.9  # bandwidthSafetyFactor
WEIGHT_PER_S = 1.5  # of a second of download, in the moving averages
PLACEHOLDER_DECAY = 0.99  # per segment
INSUFFICIENT_SAFETY = 0.7
IGNORED_SEGMENTS = 2  # before the insufficient-buffer rule speaks
HISTORY = 8
DROP_SHARE = 0.075


class DashJs:
    """`buffer_s` is dash.js's bufferTimeDefault."""

    privileged = False

    def __init__(self, buffer_s: float = 18.0) -> None:
        if not buffer_s > 0:
            raise ConfigError(f"dashjs({buffer_s}): buffer_s is the buffer that the player means to hold; above 0")
        self.buffer_s = buffer_s

    def reset(self, seed: int, episode: EpisodeInfo) -> None:  # noqa: ARG002 - the protocol's
        """Take the ladder; forget the session before."""
        self._video = episode.video
        self._rate = SmoothedRate()
        self._bola = _BolaRule(BolaLevels.of(episode.video.bitrates_kbps, self.buffer_s))
        self._use_bola = False
        self._segments = 0
        self._switches = SwitchHistory(episode.video.rungs)

    def act(self, observation: Observation) -> int:
        """The rung."""
        seen = view(observation, self._video)
        self._segments += 1
        self._rate.push(float(seen.throughputs[-1]), WEIGHT_PER_S * seen.download_s)
        kbps = self._rate.bytes_per_s / 125.0
        rates = self._video.bitrates_kbps
        carried = highest_below(rates, SAFETY * kbps)
        self._use_bola = seen.buffer_s >= (0.5 * self.buffer_s if self._use_bola else self.buffer_s)
        self._bola.downloaded(seen)
        wanted = [self._bola.rung(seen, carried, self._video.chunk_s) if self._use_bola else carried]
        if self._segments > IGNORED_SEGMENTS:
            wanted.append(highest_below(rates, INSUFFICIENT_SAFETY * kbps * seen.buffer_s / self._video.chunk_s))
        wanted.append(self._switches.limit())
        rung = min(wanted)
        self._switches.push(seen.last_rung, rung)
        return rung

    def reason(self) -> dict[str, Any]:
        """Its average of throughputs."""
        return {"estimate_kbps": self._rate.bytes_per_s / 125.0}


class _BolaRule:
    """BOLA-O with a placeholder, started by the throughput rule's choice when it is first asked."""

    def __init__(self, levels: BolaLevels) -> None:
        self._levels = levels
        self._placeholder_s = 0.0
        self._steady = False

    def downloaded(self, seen: View) -> None:
        """A segment has come: the placeholder fades, and is no larger than makes sense for that segment's rung."""
        if not self._steady:
            return
        if seen.download_s > seen.request_buffer_s:  # it stalled: what is not there cannot be counted on
            self._placeholder_s = 0.0
        most_s = max(self._levels.most(seen.last_rung) - seen.request_buffer_s, 0.0)
        self._placeholder_s = min(self._placeholder_s * PLACEHOLDER_DECAY, most_s) + seen.slept_s

    def rung(self, seen: View, carried: int, chunk_s: float) -> int:
        """The rung for this buffer; `carried` is what the throughput sustains."""
        if not self._steady:
            self._placeholder_s = max(self._levels.least(carried) - seen.buffer_s, 0.0)
            self._steady = seen.buffer_s >= chunk_s
            return carried
        # dash.js 5 counts utilities from 0 here and from 1 elsewhere: as if the buffer were `v` longer.
        rung = self._levels.rung_at(seen.buffer_s + self._placeholder_s + self._levels.v)
        if rung > max(seen.last_rung, carried):
            rung = max(seen.last_rung, carried)
        surplus_s = max(seen.buffer_s + self._placeholder_s - self._levels.most(rung), 0.0)
        self._placeholder_s = max(self._placeholder_s - surplus_s, 0.0)
        return rung


class SwitchHistory:
    """Which rungs were left downwards among the last eight decisions."""

    def __init__(self, rungs: int) -> None:
        self._rungs = rungs
        self._entries: deque[tuple[int, bool]] = deque(maxlen=HISTORY)

    def push(self, before: int, after: int) -> None:
        """One decision."""
        self._entries.append((before, after < before))

    def limit(self) -> int:
        """The highest rung that may be asked for."""
        drops = np.zeros(self._rungs, dtype=np.int64)
        stays = np.zeros(self._rungs, dtype=np.int64)
        for rung, dropped in self._entries:
            drops[rung] += dropped
            stays[rung] += not dropped
        for rung in range(self._rungs):  # from the lowest up, counting all rungs so far
            left, stayed = int(drops[: rung + 1].sum()), int(stays[: rung + 1].sum())
            # Rungs without an entry are passed over.
            if drops[rung] + stays[rung] and left + stayed >= HISTORY and left > DROP_SHARE * stayed:
                return rung - 1 if rung > 0 and drops[rung] else rung
        return self._rungs - 1
