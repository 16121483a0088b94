"""When trainings save: by the clock, when it is due, and when somebody asks for an end."""

from __future__ import annotations

import signal

import pytest

from reelrl.runs.interrupts import Interrupted
from reelrl.runs.saving import Saving


class Clock:
    """Seconds that pass when told."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_checkpoint_comes_every_minute_counted_from_the_last_one() -> None:
    clock, saved = Clock(), []
    with Saving(clock=clock) as saving:
        for second in range(0, 200, 25):
            clock.now_s = second
            saving.reached(f"step {second}", lambda second=second: saved.append(second), due=second == 100)  # type: ignore[misc]
    assert saved == [75, 100, 175]


@pytest.mark.parametrize(("every_s", "saves"), [(0.0, 5), (float("inf"), 0)])
def test_the_clock_may_save_everywhere_or_never(every_s: float, saves: int) -> None:
    saved: list[int] = []
    with Saving(every_s) as saving:
        for step in range(5):
            saving.reached("here", lambda: saved.append(1), last=False)
            assert len(saved) == (step + 1 if saves else 0)


@pytest.mark.parametrize("asked_by", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_saves_and_stops_at_the_next_place_but_the_last(asked_by: signal.Signals) -> None:
    heard: list[str] = []
    with Saving(float("inf"), lambda: heard.append("asked")) as saving:
        saving.reached("step 1", lambda: heard.append("saved"))
        signal.raise_signal(asked_by)
        saving.reached("step 2", lambda: heard.append("saved"), last=True)
        with pytest.raises(Interrupted, match="step 3"):
            saving.reached("step 3", lambda: heard.append("saved"))
    assert heard == ["asked", "saved", "saved"]


def test_a_signal_in_the_middle_of_a_print_is_not_lost() -> None:
    def refused() -> None:
        raise RuntimeError("reentrant call inside <_io.BufferedWriter>")

    with Saving(on_interrupt=refused) as saving:
        signal.raise_signal(signal.SIGTERM)
        assert saving.asked


def test_the_second_signal_does_what_it_did_before() -> None:
    with Saving() as saving:
        signal.raise_signal(signal.SIGTERM)
        assert saving.asked
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
