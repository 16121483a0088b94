"""One viewer's link: a trace that begins to run with the first segment, by the simulator's rule, without root.

    request ──► latency of the slot ──► pieces of the answer, each when the slots have carried it

Times are planned from the trace alone, and sleeping is only how they are kept: late wake-ups do not add up, and the
same requests at the same times get the same answers. Requests at once share the link piece by piece.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from reelrl.stream.simulator import rule as rules

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Message, Send

    from reelrl.stream.data.traces import Trace

PIECE_S = 0.02
LEAST_PIECE_BYTES = 1200


class Link:
    """`now_s` is a clock that only goes forward."""

    def __init__(
        self, trace: Trace, rule: rules.Rule = rules.DEFAULT, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self.trace = trace
        self.now_s = now_s
        self._rule = rule
        self._edges_s: list[float] = trace.edges_s.tolist()
        self._bytes_per_s: list[float] = trace.bytes_per_s.tolist()
        self._latency_ms: list[float] = trace.latency_ms.tolist()
        self._began_s: float | None = None
        self._free_s = 0.0  # when the link has carried everything that was asked of it

    def requested(self) -> float:
        """A request arrives now; returns when its answer may begin."""
        now_s = self.now_s()
        if self._began_s is None:
            self._began_s = now_s
        slot, _ = self._place(now_s)
        latency_ms = self._rule.rtt_ms + (self._latency_ms[slot] if self._rule.slot_latency else 0.0)
        return now_s + latency_ms / 1000.0

    def carry(self, ready_s: float, size_bytes: int) -> float:
        """When bytes that are there at `ready_s` have arrived, after all that was sent before them."""
        start_s = max(ready_s, self._free_s)
        slot, clock_s = self._place(start_s)
        *_, took_s = rules.fetch(
            self._edges_s,
            self._bytes_per_s,
            0,
            len(self._bytes_per_s),
            slot,
            clock_s,
            float(size_bytes),
            self._rule.payload,
            self._edges_s[0],
        )
        self._free_s = start_s + took_s
        return self._free_s

    def piece_bytes(self, at_s: float) -> int:
        """How much is sent at once: what takes a moment, and a packet at least."""
        slot, _ = self._place(at_s)
        return max(int(self._bytes_per_s[slot] * self._rule.payload * PIECE_S), LEAST_PIECE_BYTES)

    def _place(self, at_s: float) -> tuple[int, float]:
        """Slot and clock of the trace at a time; after its end it begins again."""
        passed_s = max(at_s - (self._began_s or 0.0), 0.0) % self.trace.duration_s
        clock_s = self._edges_s[0] + passed_s
        slot = min(bisect_right(self._edges_s, clock_s), len(self._bytes_per_s)) - 1
        return slot, clock_s


def over(link: Link, send: Send) -> Send:
    """`send` of an answer whose request arrives now, over the link."""
    ready_s = link.requested()

    async def wait_until(moment_s: float) -> None:
        await asyncio.sleep(max(moment_s - link.now_s(), 0.0))

    async def shaped(message: Message) -> None:
        nonlocal ready_s
        if message["type"] != "http.response.body":
            await wait_until(ready_s)
            await send(message)
            return
        rest: Any = memoryview(message.get("body", b""))
        while rest:
            piece = rest[: link.piece_bytes(max(ready_s, link.now_s()))]
            rest = rest[len(piece) :]
            ready_s = link.carry(ready_s, len(piece))
            await wait_until(ready_s)
            await send({"type": "http.response.body", "body": bytes(piece), "more_body": True})
        if not message.get("more_body", False):
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    return shaped
