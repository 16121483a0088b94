"""`Environment`: one player on one link, the readable execution of the rule and the judge of the fast ones."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from reelrl.errors import ConfigError, ContentError
from reelrl.stream.data.ladders import Ladder, Video, read_ladder
from reelrl.stream.data.traces import Trace, read_traces
from reelrl.stream.simulator import rule as rules

RANDOM_SEED = 42
MAX_SLOT_VISITS = 50_000_000  # a chunk that walks over more slots than this would seem to hang

Rng = np.random.Generator | np.random.RandomState


class Chunk(NamedTuple):
    """What one download returned, in the order and units of Pensieve's simulator."""

    delay_ms: float
    sleep_ms: float
    buffer_s: float
    rebuffer_s: float
    size_bytes: float
    next_sizes_bytes: list[float]
    end_of_video: bool
    chunks_remain: int


class Environment:
    """A network and a player: `get_video_chunk(rung)` downloads the next segment.

    Each episode draws a trace when there are several; `random_start` also draws the slot it begins in. After the end of
    a video the next call begins a new episode. `rng` may be a legacy `RandomState`: then the draws, and so the
    episodes, are those of Pensieve's own training simulator.
    """

    def __init__(
        self,
        traces: Any,
        ladder: Any = "nominal",
        *,
        rule: rules.Rule = rules.DEFAULT,
        random_start: bool = False,
        random_seed: int = RANDOM_SEED,
        rng: Rng | None = None,
    ) -> None:
        self.traces = read_traces(traces)
        self.ladder: Ladder = read_ladder(ladder)
        self.rule = rule
        self.random_start = random_start
        self.rng: Rng = np.random.default_rng(random_seed) if rng is None else rng
        for trace in self.traces:
            check_deliverable(trace, self.ladder.video(trace), rule)
        self.trace: Trace = self.traces[0]
        self.video: Video = self.ladder.video(self.trace)
        self._sizes: list[list[float]] = []
        self._slots: tuple[list[float], list[float], list[float]] = ([], [], [])
        self._listed: dict[int, tuple[list[float], list[float], list[float]]] = {}
        self._ended = True
        self.chunk = 0
        self.slot = 0
        self.clock_s = 0.0
        self.buffer_ms = 0.0

    def reset_episode(self, trace_index: int | None = None, start_slot: int | None = None) -> None:
        """Start a video with an empty buffer; what is not given is drawn."""
        index = _integer(self.rng, len(self.traces)) if trace_index is None else trace_index
        if not 0 <= index < len(self.traces):
            raise ConfigError(
                f"trace = {index}, there are {len(self.traces)} traces; choose 0 to {len(self.traces) - 1}"
            )
        self._take(index)
        if start_slot is None:
            start_slot = _integer(self.rng, len(self.trace)) if self.random_start else 0
        if not 0 <= start_slot < len(self.trace):
            raise ConfigError(
                f"start_slot = {start_slot}, the trace has {len(self.trace)} slots; choose 0 to {len(self.trace) - 1}"
            )
        self.slot = start_slot
        self.clock_s = float(self.trace.edges_s[start_slot])
        self.buffer_ms = 0.0
        self.chunk = 0
        self._ended = False

    def _take(self, index: int) -> None:
        """Turn to a trace and the video on it, as lists; what is the same as in the last episode stays."""
        if index not in self._listed:
            trace = self.traces[index]
            self._listed[index] = trace.edges_s.tolist(), trace.bytes_per_s.tolist(), trace.latency_ms.tolist()
        self._slots = self._listed[index]
        if self._sizes and self.trace is self.traces[index]:
            return
        self.trace = self.traces[index]
        # A ladder that gives lengths and sizes makes the same video of every trace.
        if not self._sizes or not self.ladder.complete:
            self.video = self.ladder.video(self.trace)
            self._sizes = self.video.sizes_bytes.tolist()

    def draw_noise(self) -> float:
        """The factor of the next download; 1 (and no draw) when the rule has no noise."""
        low, high = self.rule.noise_low, self.rule.noise_high
        # The same number as `rng.uniform(low, high)`, which takes four times as long to be asked.
        return low if low == high else low + (high - low) * self.rng.random()

    def get_video_chunk(self, quality: int) -> Chunk:
        """Download the next segment at rung `quality`."""
        if self._ended:
            self.reset_episode()
        size = self._sizes[self.chunk][quality]
        edges_s, bytes_per_s, latency_ms = self._slots
        self.slot, self.clock_s, self.buffer_ms, delay_ms, sleep_ms, stall_ms = rules.download(
            edges_s,
            bytes_per_s,
            latency_ms,
            0,
            len(bytes_per_s),
            self.slot,
            self.clock_s,
            self.buffer_ms,
            size,
            self.video.chunk_s * 1000.0,
            self.draw_noise(),
            self.rule,
        )
        self.chunk += 1
        remain = len(self._sizes) - self.chunk
        self._ended = remain == 0
        return Chunk(
            delay_ms,
            sleep_ms,
            self.buffer_ms / 1000.0,
            stall_ms / 1000.0,
            size,
            # After the last chunk comes the first of the next play, as in Pensieve.
            self._sizes[self.chunk % len(self._sizes)],
            self._ended,
            remain,
        )


def check_deliverable(trace: Trace, video: Video, rule: rules.Rule) -> None:
    """Refuse a link so slow, or cut so fine, that one chunk would walk over tens of millions of slots."""
    latency_ms = rule.rtt_ms + (float(trace.latency_ms.max()) if rule.slot_latency else 0.0)
    idle_ms = max(latency_ms * rule.noise_high, video.chunk_s * 1000.0 + rule.drain_ms)
    largest = float(video.sizes_bytes.max()) * max(rule.noise_high, 1.0)
    passes = largest / rule.payload / trace.bytes_per_pass + idle_ms / 1000.0 / trace.duration_s + 1.0
    if video.chunks < 2:
        raise ContentError(
            f"{trace.name}: the video has {video.chunks} chunk, and the first is not a decision; give a ladder "
            "of 2 chunks or more (one that does not say has as many as the trace has slots)"
        )
    if not passes * len(trace) <= MAX_SLOT_VISITS:
        raise ContentError(
            f"{trace.name}: one pass of {len(trace)} slots carries {trace.bytes_per_pass:g} bytes, so a chunk "
            f"of {largest:g} bytes takes "
            f"{passes:.3g} passes; at most {MAX_SLOT_VISITS / len(trace):.3g} are simulated. Check the units "
            "of the trace and the ladder"
        )


def _integer(rng: Rng, count: int) -> int:
    """A number below `count`."""
    if isinstance(rng, np.random.RandomState):
        return int(rng.randint(count))
    return int(rng.integers(count))
