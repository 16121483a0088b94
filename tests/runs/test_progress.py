from __future__ import annotations

import io
import json
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reelrl.runs.progress import Progress, duration, spaced, track


class Terminal(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.writes = 0

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.writes += 1
        return super().write(text)


class Clock:
    """Moves `tick_s` with every look."""

    def __init__(self, tick_s: float = 0.0) -> None:
        self.now_s = 0.0
        self.tick_s = tick_s

    def __call__(self) -> float:
        self.now_s += self.tick_s
        return self.now_s


def test_what_is_over_soon_is_quiet_where_there_is_no_terminal() -> None:
    out = io.StringIO()
    assert list(track(range(5), "encode", out=out)) == [0, 1, 2, 3, 4]
    assert out.getvalue() == ""


def test_in_a_pipe_long_work_leaves_lines_at_growing_distances() -> None:
    out, clock = io.StringIO(), Clock()
    with Progress("encode", 36_000, unit="clips", out=out, clock=clock) as progress:
        for _ in range(36_000):
            clock.now_s += 1.0
            progress.update()
    lines = out.getvalue().splitlines()
    assert lines[0] == "encode    0%   15 / 36 000 clips   1.0 clips/s   10 h 00 min left"
    done = [int(line.split("%")[1].split("/")[0].replace(" ", "")) for line in lines]
    assert done[1] - done[0] == 15
    assert max(after - before for before, after in pairwise(done)) < 3600
    assert len(lines) < 80


def test_a_bar_shows_share_rate_time_left_and_figures() -> None:
    out, clock = Terminal(), Clock()
    progress = Progress("train", 100_000, unit="steps", out=out, clock=clock)
    clock.now_s = 100.0
    progress.update(20_000, reward=41.23456, stage="a")
    (line,) = out.getvalue().split("\r")[1:]
    assert line.startswith("train  ████ ")
    assert " 20%   20 000 / 100 000 steps   200 steps/s   7 min left   reward 41.23   stage a" in line


def test_the_last_state_is_always_shown_and_the_line_ended() -> None:
    out = Terminal()
    list(track(range(3), "encode", unit="clips", out=out))
    assert "100%   3 / 3 clips" in out.getvalue()
    assert out.getvalue().endswith("\n")


def test_a_shorter_line_leaves_nothing_of_a_longer_one() -> None:
    out, clock = Terminal(), Clock(1.0)
    with Progress("x", out=out, clock=clock) as progress:
        progress.update(1, note="a very long remark")
        progress.update(1, note="b")
    first, second = (line.rstrip("\n") for line in out.getvalue().split("\r")[1:3])
    assert len(second) == len(first)


def test_json_lines_are_for_programs() -> None:
    out, clock = io.StringIO(), Clock()
    with Progress("train", 10, mode="json", out=out, clock=clock) as progress:
        clock.now_s = 2.0
        progress.update(5, loss=np.float32(0.5), worst=math.nan)
    first, last = (json.loads(line) for line in out.getvalue().splitlines())
    assert first == {
        "progress": "train",
        "done": 5,
        "total": 10,
        "elapsed_s": 2.0,
        "per_s": 2.5,
        "left_s": 2.0,
        "finished": False,
        "figures": {"loss": 0.5, "worst": "nan"},
    }
    assert last["finished"] is True


def test_it_writes_by_time_not_by_update() -> None:
    out = Terminal()
    progress = Progress("train", 100_000, out=out, clock=Clock(tick_s=0.001))
    for _ in range(100_000):  # 100 s by that clock, at most 10 writes a second
        progress.update()
    assert 900 <= out.writes <= 1000


def test_an_unknown_total_shows_a_count() -> None:
    out, clock = Terminal(), Clock(1.0)
    with Progress("read", unit="frames", out=out, clock=clock) as progress:
        progress.update(7)
    assert "read  7 frames   " in out.getvalue()
    assert "%" not in out.getvalue()


def test_the_loop_ends_its_line_when_it_breaks() -> None:
    out = Terminal()
    items = track(range(100), "encode", out=out)
    next(items)
    items.close()  # type: ignore[attr-defined]
    assert out.getvalue().endswith("\n")


@given(st.floats(0, 1e7))
def test_any_duration_is_short(seconds: float) -> None:
    assert len(duration(seconds)) <= 14


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (89, "89 s"),
        (360, "6 min"),
        (7500, "2 h 05 min"),
        (3599, "1 h 00 min"),
        (math.inf, "?"),
        (None, "?"),
    ],
)
def test_durations_read_well(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_numbers_are_grouped() -> None:
    assert [spaced(20_000), spaced(3.21), spaced(5), spaced(212.4)] == ["20 000", "3.2", "5", "212"]
