"""Nets of the learned baselines: what they are taught is right, and fitting is a command."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest

from reelrl.cli.main import main
from reelrl.errors import CheckpointError
from reelrl.runs import policy_file
from reelrl.stream.controllers.comyco import Comyco
from reelrl.stream.controllers.fugu import EDGES, Fugu
from reelrl.stream.controllers.history import histories, mean_rates
from reelrl.stream.controllers.protocol import harmonic_mean, view
from reelrl.stream.data.ladders import nominal_ladder
from reelrl.stream.fit.download_times import collect
from reelrl.stream.fit.expert import Expert
from reelrl.stream.playback import load_bitrate_controller
from reelrl.stream.simulator.env import ABREnv
from reelrl.stream.simulator.qoe import Qoe
from tests.stream.helpers import bumpy_ladder, links

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.stream.data.traces import Trace


def tried(trace: Trace, first: int, chunks: int) -> float:
    """The best of all plans that begin with a rung, by playing every one of them."""
    ladder = nominal_ladder((300.0, 1200.0, 4300.0), 4.0, chunks)
    best = -np.inf
    for rest in itertools.product(range(3), repeat=chunks - 2):
        env = ABREnv(trace, ladder)
        env.reset()
        best = max(best, sum(env.step(rung)[1] for rung in (first, *rest)))
    return best


@pytest.mark.slow
@pytest.mark.parametrize("number", range(4))
def test_the_expert_knows_what_every_first_rung_leads_to(number: int) -> None:
    trace, chunks = links(6)[number + 2], 6
    ladder = nominal_ladder((300.0, 1200.0, 4300.0), 4.0, chunks)
    env = ABREnv(trace, ladder)
    env.reset()
    net = env.net_env
    expert = Expert([trace], ladder.video(), Qoe(), net.rule)
    values = expert.values(0, net.slot, net.clock_s, net.buffer_ms, 1, env.last_bit_rate)
    wanted = [tried(trace, first, chunks) for first in range(3)]
    # Plans that differ by a twentieth of what a chunk can be worth are one.
    assert (values <= np.array(wanted) + 1e-9).all()
    np.testing.assert_allclose(values, wanted, atol=0.05 * 4.0 * chunks)


def test_a_batch_of_states_has_the_mean_rate_of_each() -> None:
    env = ABREnv(links(4), bumpy_ladder())
    observation, _ = env.reset(seed=1)
    for rung in (1, 4, 0, 5, 2, 3, 1):
        batch = observation[None]
        rate = mean_rates(batch)
        assert rate[0] == pytest.approx(harmonic_mean(view(observation, env.net_env.video).throughputs))
        history = histories(batch, rate)[0]
        seen = history[16:] > 0
        assert np.exp(-history[:8])[seen][-5:].mean() == pytest.approx(1.0)  # the mean of the last five, over itself
        observation, *_ = env.step(rung)


def test_downloads_are_classed_by_what_they_took_over_what_was_promised() -> None:
    found = collect(links(4), bumpy_ladder(), 1, seed=0)
    assert found.rows.shape[0] == found.classes.shape[0] == 512 * (7 * 5 + 4 + 3 + 2 + 1)
    inside = (found.classes > 0) & (found.classes < len(EDGES))
    assert (EDGES[found.classes[inside] - 1] <= found.ratios[inside]).all()
    assert (found.ratios[inside] <= EDGES[found.classes[inside]]).all()


@pytest.mark.slow
@pytest.mark.parametrize(("baseline", "kind"), [("fugu", Fugu), ("comyco", Comyco)])
def test_fitting_is_a_command_and_its_file_a_controller(
    baseline: str, kind: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REELRL_DATA", raising=False)
    file = tmp_path / "net.safetensors"
    few = ["--links", "20", "--rounds", "1", "--players", "4", "--epochs", "1"]
    assert main(["fit", "abr", baseline, "-o", str(file), *few]) == 0
    assert isinstance(load_bitrate_controller(str(file)), kind)
    again = tmp_path / "again.safetensors"
    assert main(["fit", "abr", baseline, "-o", str(again), *few]) == 0
    first, second = policy_file.load(file), policy_file.load(again)
    for (weight, bias), (other_weight, other_bias) in zip(first.layers, second.layers, strict=True):
        np.testing.assert_array_equal(weight, other_weight)
        np.testing.assert_array_equal(bias, other_bias)
    assert main(["fit", "abr", baseline, "-o", str(file), "--rounds", "0"]) == 1


def test_one_baselines_net_is_not_the_others(tmp_path: Path) -> None:
    for kind, other in ((Fugu, Comyco), (Comyco, Fugu)):
        with pytest.raises(CheckpointError, match="give one that `reel fit abr"):
            kind(other().path)
