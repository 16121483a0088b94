"""What every bitrate controller of the table promises, whatever it is made of."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from reelrl.names import BITRATE_CONTROLLERS
from reelrl.stream.data.ladders import Ladder, nominal_ladder
from reelrl.stream.data.traces import Trace
from reelrl.stream.playback import load_bitrate_controller, play
from tests.stream.controllers.test_pensieve_ppo import write_actor
from tests.stream.helpers import bumpy_ladder, links

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.stream.controllers.protocol import Controller

pytestmark = pytest.mark.filterwarnings("ignore:scale-free-pensieve.safetensors is used outside")

SIX_RUNGS_ONLY = {"ppo", "comyco", "pensieve-ppo"}
LADDERS = {
    "bumpy": bumpy_ladder(),
    "two rungs": nominal_ladder((500.0, 2500.0), 2.0, 12),
    "ten rungs": nominal_ladder(tuple(200.0 * 1.5**k for k in range(10)), 3.0, 12),
    "live": nominal_ladder((300.0, 900.0, 2000.0), 1.0, 20),
}


@pytest.fixture(params=sorted(BITRATE_CONTROLLERS))
def name(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "pensieve-ppo":
        return str(write_actor(tmp_path / "nn_model.pth"))
    return str(request.param)


@cache
def loaded(name: str) -> Controller:
    return load_bitrate_controller(name)


def takes(name: str, ladder: Ladder) -> bool:
    return len(ladder.bitrates_kbps) == 6 or not (name in SIX_RUNGS_ONLY or name.endswith(".pth"))


def chosen(name: str, trace: Trace, ladder: Ladder, **options: Any) -> list[float]:
    return play(loaded(name), trace, ladder, timeline=True, **options).timeline["bitrate_kbps"]


@pytest.mark.parametrize("ladder", LADDERS.values(), ids=list(LADDERS))
def test_a_session_is_played_to_its_end_on_any_ladder_that_it_takes(name: str, ladder: Ladder) -> None:
    if not takes(name, ladder):
        pytest.skip("made for six rungs")
    for trace in links(4):
        rungs = chosen(name, trace, ladder, preset=None)
        assert len(rungs) == ladder.video().chunks
        assert set(rungs) <= set(ladder.bitrates_kbps.tolist())


def test_a_session_leaves_nothing_behind_for_the_next(name: str) -> None:
    first, second = links(4)[:2]
    once = chosen(name, first, bumpy_ladder())
    chosen(name, second, bumpy_ladder())
    assert chosen(name, first, bumpy_ladder()) == once


def test_who_is_not_privileged_does_not_know_the_future(name: str) -> None:
    """Two links that are the same for a minute are decided alike for as long."""
    if loaded(name).privileged:
        pytest.skip("it says that it knows")
    rates = links(4)[0].kbps
    other = rates.copy()
    other[60:] = rates[60:][::-1] * 0.3
    both = [Trace.from_slots("link", np.full(len(rates), 1000.0), each) for each in (rates, other)]
    sessions = [play(loaded(name), trace, nominal_ladder(), timeline=True).timeline for trace in both]
    times_s = np.cumsum(np.add(sessions[0]["delay_ms"], sessions[0]["sleep_ms"])) / 1000.0
    alike = int(np.searchsorted(times_s, 55.0))
    assert sessions[0]["bitrate_kbps"][:alike] == sessions[1]["bitrate_kbps"][:alike]


def test_a_link_that_carries_everything_gets_the_highest_rung_in_the_end(name: str) -> None:
    if name == "lowest" or name.endswith(".pth"):
        pytest.skip("it does not look")
    trace = Trace.from_slots("fast", [1000.0] * 100, [50_000.0] * 100)
    assert chosen(name, trace, nominal_ladder())[-5:] == [4300.0] * 5
