"""A search finds offsets that gain on its clip, a linear rule imitates them, and agents learn from the rule."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import numpy as np
import pytest

from reelrl.cli.main import main
from reelrl.content.sources import open_clip
from reelrl.encode.frameqp.controllers.evolved import INPUTS, FixedShape
from reelrl.encode.frameqp.evaluation.encodes import controller_of
from reelrl.encode.frameqp.fit import FrameLesson, FrameTrial, episode_of, gain_of
from reelrl.encode.frameqp.search import basis, load_found
from reelrl.encode.minigop.controllers.learned import LearnedMiniGop
from reelrl.errors import CheckpointError, ConfigError
from tests.encode.fixtures import own_cache  # noqa: F401

if TYPE_CHECKING:
    from pathlib import Path

CLIP = "generated:street?size=64x48&frames=20"
WORDS = ["--clips", CLIP, "--frames", "20", "--qps", "40", "--workers", "1"]


@pytest.fixture(scope="module")
def lesson() -> FrameLesson:
    return FrameLesson(open_clip(CLIP), 20, 40)


def test_offsets_of_zero_are_the_rule_and_others_are_not(lesson: FrameLesson) -> None:
    plan = episode_of(lesson).plan
    same = gain_of(FrameTrial(lesson, (0.0,) * len(plan), fixed=True))
    assert (same.psnr_y, same.psnr_y_of_mean, same.charged) == (0.0, 0.0, 0.0)
    moved = gain_of(FrameTrial(lesson, tuple(8.0 * (each.kind == "key") for each in plan), fixed=True))
    assert moved.psnr_y != 0


def test_every_number_that_is_searched_moves_some_frame(lesson: FrameLesson) -> None:
    columns = basis(episode_of(lesson))
    assert columns.shape[0] == len(episode_of(lesson).plan)
    assert (np.abs(columns).sum(axis=0) > 0).all()


def test_offsets_of_another_clip_are_refused(lesson: FrameLesson) -> None:
    with pytest.raises(ConfigError, match="they belong to another clip"):
        FixedShape([0.0]).shapes(episode_of(lesson))


@pytest.mark.slow
def test_what_a_search_found_becomes_a_rule(tmp_path: Path) -> None:
    searched, rule = str(tmp_path / "searched.json"), str(tmp_path / "rule.json")
    assert main(["search", "frameqp", "--out", searched, *WORDS, "--generations", "2", "--candidates", "4"]) == 0
    (found,) = load_found(searched)
    assert found.encodes == 8
    assert found.gain.charged >= 0
    assert main(["fit", "frameqp", "--imitate", searched, "-o", rule, "--workers", "1"]) == 0
    assert list(json.loads((tmp_path / "rule.json").read_text())["inputs"]) == list(INPUTS)
    for nothing in ('{"found": [{}]}', '{"found": []}'):
        (tmp_path / "searched.json").write_text(nothing)
        with pytest.raises(CheckpointError, match="reel search frameqp"):
            load_found(searched)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit", "frameqp-sac", "-o", "agent.safetensors", "--seconds", "0"], "--seconds 0; give more than 0"),
        (["fit", "frameqp-sac", "-o", "agent.safetensors", "--seconds", "nan"], "--seconds nan; give more than 0"),
        (["fit", "frameqp-sac", "-o", "agent.safetensors", "--episodes", "0"], "episodes = 0; it is 1 or more"),
        (["fit", "frameqp-sac", "-o", "agent.json"], "does not end in .safetensors"),
        (["fit", "frameqp-sac", "-o", "/dev/null/agent.safetensors"], "cannot write to /dev/null"),
        (["fit", "frameqp", "-o", "rule.safetensors"], "does not end in .json"),
    ],
)
def test_what_would_be_found_out_after_hours_is_told_before(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, *WORDS]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_an_agent_is_trained_and_read_back(tmp_path: Path) -> None:
    path = str(tmp_path / "agent.safetensors")
    assert main(["fit", "frameqp-sac", "-o", path, *WORDS, "--episodes", "2"]) == 0
    agent = controller_of(path)
    assert len(agent.facts["gains_db"]) == 2  # type: ignore[attr-defined]
    with pytest.raises(CheckpointError, match="is no mini-GOP policy"):
        LearnedMiniGop(path)


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reelrl.cli.fit.frameqp_sac._show", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    agent, rule = str(tmp_path / "agent.safetensors"), str(tmp_path / "rule.json")
    assert main(["fit", "frameqp-sac", "-o", agent, *WORDS, "--episodes", "50", "--rollout", "1"]) == 130
    assert len(controller_of(agent).facts["gains_db"]) == 1  # type: ignore[attr-defined]

    def interrupted(word: str, *_: object) -> None:
        if word == "best":
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("reelrl.cli.output.line", interrupted)
    assert main(["fit", "frameqp", "-o", rule, *WORDS, "--generations", "50", "--candidates", "4"]) == 130
    assert len(json.loads((tmp_path / "rule.json").read_text())["facts"]["curve"]) == 1
