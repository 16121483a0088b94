"""`reel train abr` with a scale-free policy: a run like any other, and a policy that plays other ladders."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from reelrl.cli.main import main
from reelrl.errors import ConfigError
from reelrl.stream.playback import load_bitrate_controller
from reelrl.stream.scalefree.controller import ScaleFree
from reelrl.stream.train import AbrTraining

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

SMALL = ["policy=scalefree", "players=32", "links=20", "videos=12", "validate_every=2", "hidden=16", "rollout=8"]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.delenv("REELRL_DATA", raising=False)


def train(root: Path, *more: str) -> Path:
    arguments = [word for setting in SMALL for word in ("--set", setting)]
    assert main(["train", "abr", "--output-dir", str(root), *arguments, *more]) == 0
    return max(folder for folder in root.iterdir() if folder.is_dir())


def test_the_policy_of_a_run_plays_a_ladder_that_it_has_not_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = train(tmp_path / "runs", "--set", "steps=768")
    assert isinstance(load_bitrate_controller(str(run)), ScaleFree)
    ladder = tmp_path / "ladder.json"
    ladder.write_text('{"bitrates_kbps": [200, 500, 2000], "chunk_s": 2.0, "chunks": 6}')
    capsys.readouterr()
    arguments = ["evaluate", "abr", str(run), "lowest", "--ladder", str(ladder), "-o", str(tmp_path / "out")]
    assert main([*arguments, "--reference", "lowest", "--json"]) == 0
    lines = {line["name"]: line for line in json.loads(capsys.readouterr().out)["lines"]}
    assert set(lines) == {str(run), "lowest"}
    assert np.isfinite(lines[str(run)]["qoe"]["mean"])


@pytest.mark.long
def test_a_run_goes_on_from_a_policy_once_its_critic_knows_it(tmp_path: Path) -> None:
    """While the critic learns the policy stays what it was; then it changes."""
    first = train(tmp_path / "first", "--set", "steps=256")
    start = (f"start={first / 'artifacts' / 'policy.safetensors'}", "critic_first=2")
    more = [word for setting in start for word in ("--set", setting)]
    given = load_bitrate_controller(str(first))
    waiting = load_bitrate_controller(str(train(tmp_path / "waiting", "--set", "steps=512", *more)))
    moved = load_bitrate_controller(str(train(tmp_path / "moved", "--set", "steps=1024", *more)))
    weights = [each.policy.actor["score"].weight for each in (given, waiting, moved)]  # type: ignore[attr-defined]
    torch.testing.assert_close(weights[1], weights[0], rtol=0.0, atol=0.0)
    assert not torch.equal(weights[2], weights[0])


def test_only_a_scale_free_policy_can_be_gone_on_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match=r"start = scalefree with policy = pensieve"):
        AbrTraining(start="scalefree")
    arguments = [word for setting in (*SMALL, "start=bola") for word in ("--set", setting)]
    assert main(["train", "abr", "--output-dir", str(tmp_path), *arguments]) != 0
    assert "start = bola is no scale-free policy; give `scalefree`" in capsys.readouterr().err


def test_a_training_may_end_by_the_clock(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = train(tmp_path / "runs", "--set", "steps=100000000", "--set", "minutes=0.001")
    assert isinstance(load_bitrate_controller(str(run)), ScaleFree)
    assert "best" in capsys.readouterr().out


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match="minutes = -1"):
        AbrTraining(minutes=-1)
    with pytest.raises(ConfigError, match="videos = 0"):
        AbrTraining(policy="scalefree", videos=0)
