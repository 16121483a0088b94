"""What every environment over mini-GOPs promises, with an encoder that only counts."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import pytest

from reelrl.encode.minigop.controllers.rules import CrfReplay
from reelrl.encode.minigop.protocols import MiniGopEpisode, MiniGopFeedback, MiniGopRequest
from reelrl.encode.minigop.reference import Account, MeasuredCurve
from reelrl.encode.minigop.stepped_source import SteppedSource
from reelrl.errors import ConfigError, EncoderError

if TYPE_CHECKING:
    from reelrl.encode.minigop.reference import RdCurve

MINI_GOPS, FRAMES = 4, 8
EPISODE = MiniGopEpisode(
    clip="made up", width=64, height=64, frames=MINI_GOPS * FRAMES, fps=Fraction(25), goal="vbr", kbps=100.0,
    budget_bits=128_000.0, buffer_s=1.0, feedback_lag=1, passes=0,
)  # fmt: skip


class CountingEncoder:
    """Spends less the higher the delta, and says so one mini-GOP later; may fail at one of them."""

    episode = EPISODE
    packets = ()
    sent_qps = ()

    def __init__(self, fails_at: int | None = None) -> None:
        self.deltas: list[float] = []
        self.closed = False
        self.fails_at = fails_at
        self._reported = 0

    def request(self) -> MiniGopRequest | None:
        mg = len(self.deltas)
        if mg == MINI_GOPS:
            return None
        left = (MINI_GOPS - mg) * FRAMES
        return MiniGopRequest(mg, 0, mg * FRAMES, FRAMES, 40, (40,) * FRAMES, 1000.0 * left, left, {"inter": 1.0})

    def reply(self, delta: float) -> None:
        if len(self.deltas) == self.fails_at:
            raise EncoderError("it broke")
        self.deltas.append(delta)

    def feedback(self) -> list[MiniGopFeedback]:
        done = len(self.deltas)
        known = range(self._reported, done if done == MINI_GOPS else max(done - 1, 0))
        self._reported = max(self._reported, known.stop)
        return [self.report(mg) for mg in known]

    def report(self, mg: int) -> MiniGopFeedback:
        delta = self.deltas[mg]
        bits = round(32_000 * 2 ** (-0.1 * delta))
        return MiniGopFeedback(mg, 40, bits, 36 - 0.3 * delta, mg + 1 == MINI_GOPS, FRAMES, delta)

    def close(self) -> None:
        self.closed = True


class Counting(SteppedSource[CountingEncoder]):
    def __init__(self, fails_at: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.fails_at = fails_at
        self.opened: list[CountingEncoder] = []

    def _choose(self, options: dict[str, Any]) -> tuple[int, float]:
        return int(options.get("clip", 0)), float(options.get("kbps", 100.0))

    def _open(self, number: int, kbps: float) -> CountingEncoder:
        self.opened.append(CountingEncoder(self.fails_at))
        return self.opened[-1]

    def _curve(self, number: int, kbps: float, source: CountingEncoder) -> RdCurve:
        return curve()


def curve() -> MeasuredCurve:
    made = MeasuredCurve([16.0, 18.0], [34.0, 38.0])
    made.bits, made.psnr_y = np.full(MINI_GOPS, 32_000.0), np.full(MINI_GOPS, 36.0 * FRAMES)
    made.frames = MINI_GOPS * FRAMES
    return made


def played(env: Counting, actions: list[float]) -> list[tuple[float, dict[str, Any]]]:
    env.reset(seed=0)
    steps = []
    for number, action in enumerate(actions):
        _, reward, ended, truncated, info = env.step([action])
        assert (ended, truncated) == (number + 1 == MINI_GOPS, False)
        steps.append((reward, info))
    return steps


@pytest.mark.parametrize("max_delta", [1.5, 6.0, 8.0])
def test_an_action_is_a_share_of_the_largest_delta_beside_the_guides(max_delta: float) -> None:
    env = Counting(guide=CrfReplay(2.0), max_delta=max_delta)
    steps = played(env, [1.0, -1.0, 0.5, 0.0])
    wanted = [2 + max_delta, 2 - max_delta, 2 + max_delta / 2, 2]
    assert [info["delta"] for _, info in steps] == pytest.approx(wanted)
    assert env.opened[0].deltas == pytest.approx(wanted)


def test_rewards_and_costs_come_with_the_feedback_and_add_up_to_the_clips() -> None:
    env = Counting()
    steps = played(env, [-1.0, 0.2, 0.4, -0.3])
    assert [[report["mg"] for report in info["feedback"]] for _, info in steps] == [[], [0], [1], [2, 3]]
    account = Account(curve(), EPISODE)
    scored = [account.add(env.opened[0].report(mg)) for mg in range(MINI_GOPS)]
    assert sum(reward for reward, _ in steps) == pytest.approx(sum(reward for reward, _ in scored))
    assert sum(info["cost"] for _, info in steps) == pytest.approx(sum(cost for _, cost in scored))
    assert [info["gop_end"] for _, info in steps] == [False, False, False, True]


def test_after_its_last_mini_gop_an_encode_is_closed_and_another_may_begin() -> None:
    env = Counting()
    played(env, [0.0] * MINI_GOPS)
    assert env.opened[0].closed
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step([0.0])
    env.reset()
    env.step([0.0])
    assert [encoder.closed for encoder in env.opened] == [True, False]
    env.close()
    assert env.opened[1].closed


def test_an_encoder_that_fails_ends_the_episode() -> None:
    env = Counting(fails_at=1)
    env.reset()
    env.step([0.0])
    with pytest.raises(EncoderError, match="it broke"):
        env.step([0.0])
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step([0.0])


def test_an_action_that_is_refused_changes_nothing() -> None:
    env = Counting()
    env.reset()
    for action in ([2.0], [0.0, 0.0]):
        with pytest.raises(ConfigError, match="the action"):
            env.step(action)
    env.step([1.0])
    assert len(env.opened[0].deltas) == 1
