"""One viewer and their controller: what the player reports becomes the state that the simulator would have built.

    report ──► column of the state (push_column, as in ABREnv) ──► controller.act ──► rung

A viewing begins as an episode does: the first segment comes at the default rung, and the first decision sees one
measurement. What players do and the simulator does not:

    abandoned    bytes and time of a download that was given up count for the one in its place (or, when a decision
                 comes before that, for the one before): throughput stays true, the buffer follows from the downloads
    asked again  the newest column is rewritten, and the controller goes back to how it was before it saw it
    interrupted  after a pause or a seek the buffer does not follow from the downloads. The buffers of the past are
                 moved by the difference, as if it had always been so: nobody takes the jump for a wait or a stall
    seek         into what is not buffered: a new beginning at the default rung; what is known of the link stays
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.stream.controllers.protocol import MOMENT_S, EpisodeInfo, harmonic_mean, view
from reelrl.stream.simulator.observation import (
    BUFFER_NORM_FACTOR,
    DEFAULT_QUALITY,
    M_IN_K,
    S_INFO,
    push_column,
    state_columns,
)
from reelrl.stream.simulator.packed import next_sizes_mb
from reelrl.stream.simulator.qoe import Qoe
from reelrl.stream.simulator.rule import full_buffer_sleep_ms, named_rule, play

if TYPE_CHECKING:
    from reelrl.stream.controllers.protocol import Controller, Observation
    from reelrl.stream.data.ladders import Video
    from reelrl.stream.play.reports import Download, PlayerReport

START, CONTROLLER = "start", "controller"


@dataclass(frozen=True)
class RungDecision:
    """The rung of the next segment; `decided_by` is `start` where the controller was not asked."""

    rung: int
    decided_by: str
    reason: dict[str, Any]
    repeated: bool = False

    def as_json(self) -> dict[str, Any]:
        return {
            "rung": self.rung,
            "representation": str(self.rung),
            "decided_by": self.decided_by,
            "repeated": self.repeated,
            "reason": self.reason,
        }


def own_copy(prototype: Controller) -> Controller:
    """A controller for one more viewing. Ours share nets, which nobody changes; of foreign ones nothing is known."""
    return copy.copy(prototype) if _is_ours(prototype) else copy.deepcopy(prototype)


def remembered(controller: Controller, shared: dict[int, Any]) -> Controller:
    """A controller as it is now, for when it has to go back. Ours replace arrays and tensors, never write into them."""
    constant = {id(each): each for each in vars(controller).values() if _is_ours(controller) and _is_constant(each)}
    return copy.deepcopy(controller, shared | constant)


def _is_ours(controller: Controller) -> bool:
    return type(controller).__module__.startswith("reelrl.")


def _is_constant(value: object) -> bool:
    return isinstance(value, np.ndarray | tuple) or type(value).__module__.partition(".")[0] == "torch"


class Viewing:
    """The state of one viewing, and its controller: a copy of `prototype`, called `name`."""

    def __init__(
        self,
        video: Video,
        prototype: Controller,
        name: str,
        *,
        qoe: Qoe = Qoe(),  # noqa: B008 - frozen
        buffer_cap_s: float = 60.0,
        seed: int = 0,
    ) -> None:
        self.video = video
        self.name = name
        self.default_rung = min(DEFAULT_QUALITY, video.rungs - 1)
        self._rule = named_rule(None, buffer_s=buffer_cap_s)
        episode = EpisodeInfo(video, qoe, self._rule, self.default_rung)
        self._controller = own_copy(prototype)
        # What is no part of a viewing is not copied when the controller's state is remembered.
        made = vars(self._controller).values() if _is_ours(prototype) else ()
        self._shared = {id(each): each for each in (video, qoe, self._rule, episode, *made)}
        self._controller.reset(seed, episode)
        self._before: Controller | None = None  # the controller before it saw the newest column
        self.state: Observation = np.zeros((S_INFO, state_columns(video.rungs, "wide")), dtype=np.float32)
        self._rate_shares: list[float] = (video.bitrates_kbps / video.bitrates_kbps[-1]).tolist()
        self._next_mb = next_sizes_mb(video, keep_junk=False)
        self._measured = 0
        self._newest: tuple[float, float] = (0.0, 0.0)  # bytes and milliseconds of the newest column
        self._waste: tuple[float, float] = (0.0, 0.0)  # of downloads that were given up
        self._next_segment: int | None = None
        self._answer: RungDecision | None = None

    def decide(self, report: PlayerReport) -> RungDecision:
        """The rung of the segment that is about to be asked for."""
        news = report.downloads or report.interrupted or report.segment != self._next_segment
        if self._answer is not None and not news:
            return replace(self._answer, repeated=True)
        for download in report.downloads:
            self._take(download)
        jumped = self._next_segment is not None and report.segment != self._next_segment
        self._next_segment = report.segment
        if not self._measured:
            return self._answered(self.default_rung, START, report)
        self._add_waste()
        began_anew = (report.interrupted or jumped) and self._move_past(report.buffer_s)
        self._rewrite(report.buffer_s, report.segment)
        if began_anew:
            return self._answered(self.default_rung, START, report)
        return self._answered(self._act(), CONTROLLER, report)

    def _take(self, download: Download) -> None:
        """One more column, or one more download that was in vain."""
        size, took_ms = (total + more for total, more in zip(self._waste, _cost(download), strict=True))
        if download.abandoned:
            self._waste = size, took_ms
            return
        if self._measured and self._before is None:
            self._act()  # a decision that the player did not ask for: controllers remember what they saw
        self._waste = 0.0, 0.0
        self._newest = size, took_ms
        self._next_segment = min(download.segment + 1, self.video.chunks)
        buffer_s = self._follows_s(took_ms) if download.buffer_s is None else download.buffer_s
        self.state = push_column(
            self.state,
            self._rate_shares[download.rung],
            buffer_s,
            size,
            took_ms,
            self._next_mb[self._next_segment],
            self._remaining(self._next_segment),
            keep_junk=False,
        )
        self._measured += 1
        self._before = None

    def _follows_s(self, took_ms: float) -> float:
        """The buffer after a download of so long, by the simulator's rule."""
        buffer_ms, _ = play(
            float(self.state[1, -1]) * BUFFER_NORM_FACTOR * M_IN_K, took_ms, self.video.chunk_s * M_IN_K
        )
        sleep_ms = full_buffer_sleep_ms(buffer_ms, self._rule.buffer_cap_ms, self._rule.drain_ms)
        return (buffer_ms - sleep_ms) / M_IN_K

    def _add_waste(self) -> None:
        """What was given up, and not replaced before this decision, lengthens the download before it."""
        if self._waste[1] > 0:
            size, took_ms = (total + more for total, more in zip(self._newest, self._waste, strict=True))
            self._newest, self._waste = (size, took_ms), (0.0, 0.0)
            self.state[2:4, -1] = size / took_ms / M_IN_K, took_ms / M_IN_K / BUFFER_NORM_FACTOR

    def _move_past(self, buffer_s: float) -> bool:
        """Move the buffers of the past so that today's follows from them; true where the viewer begins anew."""
        before_s = float(self.state[1, -2]) * BUFFER_NORM_FACTOR
        missing_s = max(before_s - self._newest[1] / M_IN_K, 0.0) + self.video.chunk_s - buffer_s
        past = self.state[1, -min(self._measured, self.state.shape[1]) : -1]
        past[:] = np.maximum(past - missing_s / BUFFER_NORM_FACTOR, 0.0)
        return missing_s > MOMENT_S and buffer_s < self.video.chunk_s

    def _rewrite(self, buffer_s: float, segment: int) -> None:
        """The newest column as things are now."""
        self.state[1, -1] = buffer_s / BUFFER_NORM_FACTOR
        self.state[4, : self.video.rungs] = self._next_mb[segment]
        self.state[5, -1] = self._remaining(segment)

    def _remaining(self, segment: int) -> float:
        return (self.video.chunks - segment) / self.video.chunks

    def _act(self) -> int:
        if self._before is not None:
            self._controller = self._before
        self._before = remembered(self._controller, self._shared)
        return int(self._controller.act(self.state.copy()))

    def _answered(self, rung: int, decided_by: str, report: PlayerReport) -> RungDecision:
        if decided_by == START and self._measured:
            self._before = self._controller  # it need not see this column: there is nothing to decide from it
        self._answer = RungDecision(rung, decided_by, self._reason(decided_by, report))
        return self._answer

    def _reason(self, decided_by: str, report: PlayerReport) -> dict[str, Any]:
        """What the decision rests on, for the viewer."""
        seen = view(self.state, self.video)
        rate = harmonic_mean(seen.throughputs)
        sizes = self.video.sizes_bytes[report.segment]
        link = f"link about {rate / 125.0:.0f} kbit/s" if self._measured else "nothing measured yet"
        what = self.name if decided_by == CONTROLLER else "a beginning"
        own = getattr(self._controller, "reason", None)
        return {
            "text": f"{what}: {report.buffer_s:.1f} s of buffer, {link}",
            "buffer_s": report.buffer_s,
            "throughput_kbps": rate / 125.0 if self._measured else None,
            "last_rung": seen.last_rung if self._measured else None,
            "arrival_s": (sizes / rate).tolist() if self._measured else None,
        } | (own() if callable(own) and decided_by == CONTROLLER else {})


def _cost(download: Download) -> tuple[float, float]:
    return download.size_bytes, download.download_ms
