"""The imitation of the direct search: a linear rule that is found again, kept in a file that runs no code."""

from __future__ import annotations

import json
import os
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest

from reelrl.encode.minigop.controllers.imitation import INPUTS, Imitation, fit, inputs, misfit
from reelrl.encode.minigop.controllers.learned import load_minigop_controller
from reelrl.encode.minigop.protocols import MiniGopEpisode, PlannedMiniGop
from reelrl.encode.minigop.run import run_controller
from reelrl.encode.minigop.source.preparation import open_source
from reelrl.errors import CheckpointError, ReelError
from tests.encode.makers import scene

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.encode.minigop.controllers.imitation import Example

LAW = np.array([1.5, -0.7, 0.4, 0.2, -0.3, 1.0, -0.5, -2.0, 0.8])


def episode(seed: int) -> MiniGopEpisode:
    """A clip as probe and analysis would describe it, drawn at random."""
    rng = np.random.default_rng(seed)
    plan = tuple(
        PlannedMiniGop(
            mg=mg,
            gop=mg // 5,
            first_frame=16 * mg,
            frames=16,
            base_qp=40,
            layer_qps=(40,) * 16,
            features={"inter": float(rng.lognormal()), "scene_cut": float(rng.random())},
            probe_bits=int(rng.lognormal(9)),
            probe_sse=int(rng.lognormal(13)),
        )
        for mg in range(12)
    )
    return MiniGopEpisode("drawn", 64, 64, 192, Fraction(30), "vbr", 100.0, 640_000.0, 1.0, 2, 1, plan)


def example(seed: int, law: np.ndarray = LAW) -> Example:
    """Deltas of the planted law, at a QP that differs from clip to clip."""
    one = episode(seed)
    assert one.plan is not None
    return one, (inputs(one, one.plan) @ law + seed % 7).tolist()


def test_a_planted_law_is_found_and_holds_on_clips_that_were_not_fitted() -> None:
    rule = fit([example(seed) for seed in range(20)], ridge=1e-6)
    assert rule.weights == pytest.approx(LAW, abs=1e-4)
    for seed in range(100, 105):
        one, deltas = example(seed)
        assert one.plan is not None
        assert rule.offsets(one, one.plan) == pytest.approx(np.array(deltas) - np.mean(deltas), abs=1e-3)


def test_a_rule_of_noise_explains_nothing_elsewhere() -> None:
    rng = np.random.default_rng(0)
    noise = [(episode(seed), rng.normal(size=12).tolist()) for seed in range(40)]
    left, everything = misfit(fit(noise[:20]), noise[20:])
    assert left > 0.9 * everything
    left, everything = misfit(fit([example(seed) for seed in range(20)]), [example(seed) for seed in range(50, 60)])
    assert left < 0.01 * everything


def test_a_mean_of_deltas_teaches_nothing() -> None:
    assert fit([(episode(seed), [5.0] * 12) for seed in range(5)]).weights == pytest.approx(np.zeros(len(INPUTS)))


def test_deltas_of_another_plan_are_refused() -> None:
    with pytest.raises(CheckpointError, match="3 deltas"):
        fit([(episode(0), [1.0, 2.0, 3.0])])


@pytest.mark.slow
def test_the_file_gives_the_same_rule_and_the_same_stream(tmp_path: Path) -> None:
    rule = Imitation(LAW.tolist(), {"without": "derf"})
    rule.save(tmp_path / "rule.json")
    again = load_minigop_controller(str(tmp_path / "rule.json"))
    assert isinstance(again, Imitation)
    assert (again.weights.tolist(), again.facts, again.privileged) == (LAW.tolist(), {"without": "derf"}, False)
    clip = scene("cuts", frames=36)
    runs = [run_controller(open_source(clip, kbps=80), controller) for controller in (rule, again)]
    assert runs[0].deltas == runs[1].deltas
    assert len(set(runs[0].deltas)) > 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"weights": [1]}',
        json.dumps({"inputs": list(INPUTS), "weights": [1.0], "facts": {}}),
        json.dumps({"inputs": list(INPUTS), "weights": [float("nan")] * len(INPUTS), "facts": {}}),
        json.dumps({"inputs": list(INPUTS), "weights": ["__import__('os').abort()"] * len(INPUTS), "facts": {}}),
        json.dumps({"inputs": ["error"], "weights": [1.0], "facts": {}}),
        "cos\nsystem\n(S'exit 1'\ntR.",
    ],
)
def test_a_file_that_is_no_rule_is_refused_and_nothing_in_it_is_run(tmp_path: Path, text: str) -> None:
    (tmp_path / "rule.json").write_text(text)
    with pytest.raises(ReelError, match=r"reel fit minigop|fit it anew|finite ones"):
        load_minigop_controller(str(tmp_path / "rule.json"))


def test_a_pipe_in_place_of_a_rule_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rule.json")
    with pytest.raises(CheckpointError, match="a pipe"):
        Imitation.load(tmp_path / "rule.json")
