"""How far a long job is: a bar on a terminal, elsewhere a line now and then, or JSON lines for programs.

for clip in track(clips, "encode"): ...

with Progress("train", total=100_000, unit="steps") as progress:
    progress.update(16, reward=41.2)

train  ███████▏            36%   36 000 / 100 000 steps   212 steps/s   5 min left   reward 41.2
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Sized
from typing import TYPE_CHECKING, Literal, Self, TextIO, TypeVar

from reelrl.runs.records import to_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")
Mode = Literal["auto", "bar", "lines", "json", "off"]

# Redraws per second at most; an update in between costs one look at the clock.
_PERIOD_S: dict[str, float] = {"bar": 0.1, "lines": 15.0, "json": 1.0, "off": math.inf}
# Of lines: later ones come after a share of what has passed, so that the log of a day is no longer than a page.
_SHARE = 0.1
_EIGHTHS = " ▏▎▍▌▋▊▉"
_WIDTH = 20


class Progress:
    """Counts `update`s and shows them on stderr.

    "auto" draws a bar on a terminal; elsewhere it writes a line after 15 s, and others at growing distances.
    """

    def __init__(
        self,
        label: str,
        total: int | None = None,
        *,
        unit: str = "",
        mode: Mode = "auto",
        out: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.label, self.total, self.unit = label, total, unit
        self.done = 0
        self.figures: dict[str, object] = {}
        self._out = out or sys.stderr
        self._mode = _choose(mode, self._out)
        self._clock = clock
        self._period_s = _PERIOD_S[self._mode]
        self._start_s = clock()
        self._next_s = self._start_s + self._period_s
        self._last_width = 0
        self._closed = False

    def update(self, n: int = 1, **figures: object) -> None:
        """Count `n` more; `figures` are shown behind the bar until they are given again."""
        self.done += n
        if figures:
            self.figures.update(figures)
        now_s = self._clock()
        if now_s >= self._next_s:
            pause_s = (now_s - self._start_s) * _SHARE if self._mode == "lines" else 0.0
            self._next_s = now_s + max(self._period_s, pause_s)
            self._show(now_s)

    def close(self) -> None:
        """Show the last state and end the line. A second call does nothing."""
        if self._closed or self._mode == "off":
            return
        self._closed = True
        if self._mode != "lines" or self._last_width:  # what is over before its first line needs no last one
            self._show(self._clock(), last=True)

    @property
    def rate(self) -> float:
        """Units per second since the start."""
        return self.done / max(self._clock() - self._start_s, 1e-9)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _show(self, now_s: float, last: bool = False) -> None:
        elapsed_s = max(now_s - self._start_s, 1e-9)
        text = self._json(elapsed_s, last) if self._mode == "json" else self._bar(elapsed_s, last)
        self._out.write(text)
        self._out.flush()

    def _json(self, elapsed_s: float, last: bool) -> str:
        rate = self.done / elapsed_s
        record = {
            "progress": self.label,
            "done": self.done,
            "total": self.total,
            "elapsed_s": round(elapsed_s, 3),
            "per_s": round(rate, 3),
            "left_s": None if self._left_s(rate) is None else round(self._left_s(rate) or 0.0, 1),
            "finished": last,
            "figures": self.figures,
        }
        return json.dumps(to_plain(record)) + "\n"

    def _bar(self, elapsed_s: float, last: bool) -> str:
        rate = self.done / elapsed_s
        left_s = self._left_s(rate)
        parts = [f"{self.label}  {self._drawn()}{self._count()}", f"{spaced(rate)} {self.unit or 'it'}/s"]
        parts += [f"{duration(elapsed_s)}"] if last else [f"{duration(left_s)} left"] * (left_s is not None)
        parts += [f"{name} {_figure(value)}" for name, value in self.figures.items()]
        line = "   ".join(parts)
        if self._mode == "lines":
            self._last_width = len(line)
            return f"{line}\n"
        # Blanks over the rest of a longer line; a clear-line code would upset plain consoles.
        padding = " " * (self._last_width - len(line))
        self._last_width = len(line)
        return f"\r{line}{padding}" + ("\n" if last else "")

    def _drawn(self) -> str:
        if not self.total:
            return ""
        share = min(self.done / self.total, 1.0)
        if self._mode == "lines":
            return f"{share:4.0%}   "
        whole, eighth = divmod(int(share * _WIDTH * 8), 8)
        bar = "█" * whole + (_EIGHTHS[eighth] if whole < _WIDTH else "")
        return f"{bar:<{_WIDTH}}  {share:4.0%}   "

    def _count(self) -> str:
        total = f" / {spaced(self.total)}" if self.total else ""
        return f"{spaced(self.done)}{total} {self.unit}".rstrip()

    def _left_s(self, rate: float) -> float | None:
        return max(self.total - self.done, 0) / rate if self.total and self.done else None


def track(
    items: Iterable[T],
    label: str,
    *,
    total: int | None = None,
    unit: str = "",
    mode: Mode = "auto",
    out: TextIO | None = None,
) -> Iterator[T]:
    """The items, one by one, with their progress shown."""
    size = len(items) if total is None and isinstance(items, Sized) else total
    with Progress(label, size, unit=unit, mode=mode, out=out) as progress:
        for item in items:
            yield item
            progress.update()


def duration(seconds: float | None) -> str:
    """Two figures at most: "4 s", "6 min", "2 h 05 min"."""
    if seconds is None or not math.isfinite(seconds):
        return "?"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def spaced(number: float) -> str:
    """The number with thin groups of thousands, short where it is small: "20 000", "3.2"."""
    return f"{number:.1f}" if abs(number) < 10 and not isinstance(number, int) else f"{number:,.0f}".replace(",", " ")


def _choose(mode: Mode, out: TextIO) -> str:
    if mode != "auto":
        return mode
    return "bar" if out.isatty() else "lines"


def _figure(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
