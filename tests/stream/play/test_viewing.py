"""What a player reports becomes what the simulator would have shown, for every controller, whatever viewers do."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from reelrl.names import BITRATE_CONTROLLERS
from reelrl.stream.controllers.protocol import EpisodeInfo, view
from reelrl.stream.play.reports import Download, PlayerReport
from reelrl.stream.play.viewing import CONTROLLER, START, Viewing
from reelrl.stream.playback import load_bitrate_controller
from reelrl.stream.simulator.env import ABREnv
from tests.stream.helpers import bumpy_ladder, links

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reelrl.stream.controllers.protocol import Controller

pytestmark = pytest.mark.slow

LADDER = bumpy_ladder(chunks=16)
VIDEO = LADDER.video()
# The optimum knows the trace, which no player does; Pensieve-PPO needs its authors' file.
NAMES = sorted(set(BITRATE_CONTROLLERS) - {"oracle", "pensieve-ppo"})


@cache
def prototype(name: str) -> Controller:
    return load_bitrate_controller(name)


@pytest.fixture(params=NAMES)
def controller(request: pytest.FixtureRequest) -> Iterator[Controller]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short chunks and the like are outside what a net was trained on
        yield prototype(request.param)


def download(info: dict[str, Any], segment: int, rung: int) -> Download:
    return Download(segment, rung, info["chunk_size_bytes"], info["delay_ms"])


class Session:
    """The simulator with a controller, and what a player would have measured in it."""

    def __init__(self, controller: Controller, link: int, buffer_s: float = 60.0, seed: int = 3) -> None:
        self.env = ABREnv(links(), LADDER, state="wide", buffer_s=buffer_s)
        self.observation, self.info = self.env.reset(seed=seed, options={"trace": link})
        self.controller = controller
        env = self.env
        controller.reset(seed, EpisodeInfo(VIDEO, env.qoe, env.net_env.rule, env.default_quality))
        self.segment, self.rung, self.ended = 0, env.default_quality, False

    def report(self, **changes: Any) -> PlayerReport:
        """What is said before the next segment is asked for."""
        done = download(self.info, self.segment, self.rung)
        return PlayerReport(self.segment + 1, self.info["buffer_s"], (done,), **changes)

    def step(self) -> int:
        self.rung = self.controller.act(self.observation)
        self.observation, _, self.ended, _, self.info = self.env.step(self.rung)
        self.segment += 1
        return self.rung


@pytest.mark.parametrize("buffer_s", [60.0, 9.0])
def test_states_and_decisions_are_those_of_the_simulator(controller: Controller, buffer_s: float) -> None:
    for link in (1, 4):
        viewing = Viewing(VIDEO, controller, "it", buffer_cap_s=buffer_s, seed=3)
        session = Session(controller, link, buffer_s)
        first = viewing.decide(PlayerReport(0, 0.0))
        assert (first.rung, first.decided_by) == (session.env.default_quality, START)
        while not session.ended:
            decision = viewing.decide(session.report())
            assert np.array_equal(viewing.state, session.observation)
            assert (decision.rung, decision.decided_by) == (session.step(), CONTROLLER)


def test_viewings_of_one_controller_do_not_disturb_each_other(controller: Controller) -> None:
    reports: list[list[PlayerReport]] = []
    rungs: list[list[int]] = []
    for link in (0, 4):
        session = Session(controller, link)
        reports.append([])
        rungs.append([])
        while not session.ended:
            reports[-1].append(session.report())
            rungs[-1].append(session.step())
    one, other = (Viewing(VIDEO, controller, "it", seed=3) for _ in range(2))
    taken = [(one.decide(mine).rung, other.decide(theirs).rung) for mine, theirs in zip(*reports, strict=True)]
    assert [list(column) for column in zip(*taken, strict=True)] == rungs


def test_decisions_that_were_not_asked_for_are_made_up(controller: Controller) -> None:
    session, viewing = Session(controller, 1), Viewing(VIDEO, controller, "it", seed=3)
    while session.segment < 10:
        first = session.report()
        session.step()
        second = session.report()
        # The player went on by itself, and tells of two segments at once.
        earlier = replace(first.downloads[0], buffer_s=first.buffer_s)
        decision = viewing.decide(PlayerReport(second.segment, second.buffer_s, (earlier, *second.downloads)))
        assert np.array_equal(viewing.state, session.observation)
        assert decision.rung == session.step()


def test_questions_asked_again_change_nothing_afterwards(controller: Controller) -> None:
    session, viewing = Session(controller, 1), Viewing(VIDEO, controller, "it", seed=3)
    while not session.ended:
        report = session.report()
        decision = viewing.decide(report)
        again = viewing.decide(PlayerReport(report.segment, report.buffer_s + 0.2))
        assert (again.rung, again.repeated) == (decision.rung, True)
        if report.buffer_s >= VIDEO.chunk_s:  # a look elsewhere, and back
            viewing.decide(PlayerReport(0, report.buffer_s))
            back = viewing.decide(PlayerReport(report.segment, report.buffer_s))
            assert (back.rung, back.repeated) == (decision.rung, False)
        assert decision.rung == session.step()


def test_what_was_given_up_counts_for_what_came_in_its_place(controller: Controller) -> None:
    viewing = Viewing(VIDEO, controller, "it")
    viewing.decide(PlayerReport(0, 0.0))
    viewing.decide(PlayerReport(1, 4.0, (Download(0, 1, 300_000, 2000),)))
    in_vain = Download(1, 5, 200_000, 1500, abandoned=True)
    viewing.decide(PlayerReport(2, 6.0, (in_vain, Download(1, 0, 150_000, 500))))
    seen = view(viewing.state, VIDEO)
    assert seen.download_s == pytest.approx(2.0)
    assert seen.throughputs[-1] == pytest.approx(350_000 / 2.0)
    assert seen.slept_s == 0.0
    assert (seen.last_rung, seen.next_chunk) == (0, 2)


def test_a_decision_after_something_was_given_up_knows_of_it(controller: Controller) -> None:
    viewing = Viewing(VIDEO, controller, "it")
    viewing.decide(PlayerReport(0, 0.0))
    viewing.decide(PlayerReport(1, 4.0, (Download(0, 1, 300_000, 2000),)))
    viewing.decide(PlayerReport(1, 1.0, (Download(1, 5, 3_000, 3000, abandoned=True),)))
    seen = view(viewing.state, VIDEO)
    assert seen.throughputs.tolist() == pytest.approx([303_000 / 5.0])
    assert seen.buffer_s == pytest.approx(1.0)
    assert seen.next_chunk == 1


def test_a_seek_into_the_unknown_begins_at_the_default_rung_and_keeps_what_is_known_of_the_link(
    controller: Controller,
) -> None:
    session, viewing = Session(controller, 1), Viewing(VIDEO, controller, "it", seed=3)
    for _ in range(5):
        viewing.decide(session.report())
        session.step()
    known = view(viewing.state, VIDEO).throughputs
    sought = viewing.decide(PlayerReport(12, 0.0, session.report().downloads, interrupted=True))
    assert (sought.rung, sought.decided_by) == (1, START)
    after = viewing.decide(PlayerReport(13, 4.0, (Download(12, 1, 300_000, 2500),)))
    assert after.decided_by == CONTROLLER
    seen = view(viewing.state, VIDEO)
    assert (seen.next_chunk, seen.slept_s, seen.request_buffer_s) == (13, 0.0, 0.0)
    assert seen.throughputs[: len(known)] == pytest.approx(known)


def test_a_seek_inside_the_buffer_and_a_pause_look_like_neither_wait_nor_stall(controller: Controller) -> None:
    viewing = Viewing(VIDEO, controller, "it")
    viewing.decide(PlayerReport(0, 0.0))
    for segment in range(4):
        viewing.decide(PlayerReport(segment + 1, 4.0 + 3.0 * segment, (Download(segment, 1, 300_000, 1000),)))
    # 13 s, and a download of one second: 16 s are left of it, of which the viewer skips 9.
    ahead = viewing.decide(PlayerReport(5, 7.0, (Download(4, 1, 300_000, 1000),), interrupted=True))
    assert (ahead.decided_by, view(viewing.state, VIDEO).slept_s) == (CONTROLLER, 0.0)
    # The next one takes 8 s, during which the viewer pauses: nothing is played, nothing stalls.
    viewing.decide(PlayerReport(6, 11.0, (Download(5, 1, 300_000, 8000),), interrupted=True))
    seen = view(viewing.state, VIDEO)
    assert seen.slept_s == 0.0
    assert seen.buffer_s == pytest.approx(11.0)
    assert seen.download_s <= seen.request_buffer_s


def test_reasons_are_numbers_that_belong_to_the_decision(controller: Controller) -> None:
    session, viewing = Session(controller, 1), Viewing(VIDEO, controller, "it", seed=3)
    decision = viewing.decide(session.report())
    reason = decision.reason
    assert reason["throughput_kbps"] == pytest.approx(8.0 * session.info["chunk_size_bytes"] / session.info["delay_ms"])
    assert len(reason["arrival_s"]) == VIDEO.rungs
    if "preferences" in reason:
        assert sum(reason["preferences"]) == pytest.approx(1.0)
        assert int(np.argmax(reason["preferences"])) == decision.rung
    assert reason.get("estimate_kbps", 1.0) > 0
