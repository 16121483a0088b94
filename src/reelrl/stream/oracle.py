"""The offline optimum: what a viewer who knew the whole trace would have chosen. The ceiling for every controller.

Dynamic programming over chunks. A label is a way to have downloaded the first k chunks: its value, its buffer, its
place on the link. For one last rung, a label can be forgotten when another is worth as much, is no later and has no
less buffer: whoever asks earlier is served no later, so the other can do whatever this one can. Labels of other rungs
may say so too, once the price of the switch is paid. Values are compared in steps of `quantum`; with Pensieve's
ladder and no stalls every value is a multiple of the default, so that nothing is lost. The plan found is replayed in
the exact rule: its value is one that was achieved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import numpy.typing as npt

from reelrl.errors import ConfigError
from reelrl.stream import kernels, rule  # kernels registers the rule's functions with numba
from reelrl.stream.packed import Links, pack_links

if TYPE_CHECKING:
    from reelrl.stream.session import Observation, Session

Floats = npt.NDArray[np.float64]

LABEL = np.dtype(
    [
        ("slot", np.int64),
        ("clock_s", np.float64),
        ("buffer_ms", np.float64),
        ("late_ms", np.float64),  # stalls so far less buffer: at equal k, an earlier clock is a smaller number
        ("value", np.float64),
        ("rung", np.int64),
        ("parent", np.int64),
    ]
)
# A label this far behind the best can not come back: a full buffer is worth less.
WINDOW = 90.0


def _compile(stamp: int) -> tuple[Any, Any]:
    @numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator, unused-ignore]
    def expand(
        labels: Any,
        sizes: Any,
        utilities: Any,
        last_utilities: Any,
        chunk_ms: float,
        rebuf: float,
        smooth: float,
        links: Any,
        rule_: Any,
    ) -> Any:
        """Every label followed by every rung."""
        rungs = sizes.shape[0]
        following = np.zeros(labels.shape[0] * rungs + min(stamp, 0), dtype=labels.dtype)
        for i in range(labels.shape[0]):
            for rung in range(rungs):
                label = labels[i]
                got = rule.download(
                    links.edges_s,
                    links.bytes_per_s,
                    links.latency_ms,
                    0,
                    links.last[0],
                    label.slot,
                    label.clock_s,
                    label.buffer_ms,
                    sizes[rung],
                    chunk_ms,
                    1.0,
                    rule_,
                )
                new = following[i * rungs + rung]
                new.slot, new.clock_s, new.buffer_ms = got.slot, got.clock_s, got.buffer_ms
                new.late_ms = label.late_ms + label.buffer_ms + got.stall_ms - got.buffer_ms
                last = last_utilities[label.rung]
                new.value = label.value + rule.chunk_reward(utilities[rung], last, got.stall_ms / 1000.0, rebuf, smooth)
                new.rung = rung
                new.parent = i
        return following

    @numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator, unused-ignore]
    def prune(labels: Any, utilities: Any, smooth: float, quantum: float, window: float) -> Any:
        """The labels that may still win. Per rung and step of value: the earliest, and the one with most buffer."""
        rungs = utilities.shape[0]
        best = labels.value.max()
        steps = int(window / quantum) + 2
        earliest = np.full((rungs, steps), -1, dtype=np.int64)
        fullest = np.full((rungs, steps), -1, dtype=np.int64)
        for i in range(labels.shape[0]):
            step = int((best - labels[i].value) / quantum + 0.5)
            if step < steps:
                r = labels[i].rung
                if earliest[r, step] < 0 or labels[i].late_ms < labels[earliest[r, step]].late_ms:
                    earliest[r, step] = i
                if fullest[r, step] < 0 or labels[i].buffer_ms > labels[fullest[r, step]].buffer_ms:
                    fullest[r, step] = i
        # The earliest clock and the fullest buffer among all labels of a rung worth at least as much.
        soonest = np.full((rungs, steps), np.inf)
        deepest = np.full((rungs, steps), -np.inf)
        for r in range(rungs):
            for step in range(steps):
                if step > 0:
                    soonest[r, step], deepest[r, step] = soonest[r, step - 1], deepest[r, step - 1]
                if earliest[r, step] >= 0:
                    # One label must be better in both; the earliest of each step stands for it.
                    chosen = labels[earliest[r, step]]
                    if chosen.late_ms < soonest[r, step]:
                        soonest[r, step], deepest[r, step] = chosen.late_ms, chosen.buffer_ms
        keep = np.zeros(labels.shape[0], dtype=np.bool_)
        for r in range(rungs):
            for step in range(steps):
                for i in (earliest[r, step], fullest[r, step]):
                    if i < 0:
                        continue
                    beaten = False
                    for other in range(rungs):
                        shift = int(np.ceil(smooth * abs(utilities[other] - utilities[r]) / quantum - 1e-9))
                        above = step - max(shift, 1)  # at least one step, or two equals would remove each other
                        if (
                            above >= 0
                            and soonest[other, above] <= labels[i].late_ms
                            and deepest[other, above] >= labels[i].buffer_ms
                        ):
                            beaten = True
                    keep[i] = not beaten
        return labels[keep]

    return expand, prune


_expand, _prune = _compile(kernels.source_stamp(rule))


def best_rungs(session: Session, quantum: float = 0.05, start_slot: int = 0) -> tuple[list[int], float]:
    """The best rung of every chunk after the first, and the sum of their rewards."""
    if session.trace is None:
        raise ConfigError(
            "the optimum needs the true trace, and the session has none; run it as a privileged controller"
        )
    video, qoe = session.video, session.qoe
    links = pack_links([session.trace])
    quiet = session.rule._replace(noise_low=1.0, noise_high=1.0)
    utilities = qoe.utilities(video)
    stages = [_first_label(session, links, quiet, start_slot)]
    for chunk in range(1, video.chunks):
        labels = _expand(
            stages[-1],
            video.sizes_bytes[chunk],
            utilities[chunk],
            utilities[chunk - 1],
            video.chunk_s * 1000.0,
            qoe.stall_penalty,
            qoe.smooth_penalty,
            links,
            quiet,
        )
        stages.append(_prune(labels, utilities[chunk], qoe.smooth_penalty, quantum, WINDOW))
    return _trace_back(stages)


def _first_label(session: Session, links: Links, quiet: rule.Rule, start_slot: int) -> npt.NDArray[np.void]:
    video, rung = session.video, session.default_quality
    got = rule.download(
        links.edges_s,
        links.bytes_per_s,
        links.latency_ms,
        0,
        int(links.last[0]),
        start_slot,
        float(links.edges_s[start_slot]),
        0.0,
        float(video.sizes_bytes[0, rung]),
        video.chunk_s * 1000.0,
        1.0,
        quiet,
    )
    label = np.zeros(1, dtype=LABEL)
    label[0] = (got.slot, got.clock_s, got.buffer_ms, got.stall_ms - got.buffer_ms, 0.0, rung, -1)
    return label


def _trace_back(stages: list[npt.NDArray[np.void]]) -> tuple[list[int], float]:
    index = int(np.argmax(stages[-1]["value"]))
    total = float(stages[-1]["value"][index])
    rungs: list[int] = []
    for labels in stages[:0:-1]:
        rungs.append(int(labels["rung"][index]))
        index = int(labels["parent"][index])
    return rungs[::-1], total


class Oracle:
    """Plays the offline optimum of the session's own trace."""

    privileged = True

    def __init__(self, quantum: float = 0.05) -> None:
        if not quantum > 0:
            raise ConfigError(f"quantum = {quantum}; it must be above 0")
        self.quantum = quantum

    def reset(self, seed: int, episode: Session) -> None:  # noqa: ARG002 - the protocol's
        """Plan the whole session."""
        self._plan, self.total = best_rungs(episode, self.quantum)
        self._next = 0

    def act(self, observation: Observation) -> int:  # noqa: ARG002 - it knows what comes
        """The next rung of the plan."""
        rung = self._plan[self._next]
        self._next += 1
        return rung
