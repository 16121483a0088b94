"""Linear probes of a game's state."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import torch

from reelrl.cli.main import main
from reelrl.content.feeds.atari_state import CATEGORIES, STATE, state_labels
from reelrl.errors import ConfigError
from reelrl.see.learner import StreamingAutoEncoder
from reelrl.see.measures import state_probe
from reelrl.see.settings import AutoEncoderSettings
from reelrl.see.state_report import markdown
from reelrl.see.weights import save_weights

if TYPE_CHECKING:
    from pathlib import Path


def test_f1_is_that_of_the_classes_weighted_by_their_frames() -> None:
    truth, guessed = torch.tensor([0, 0, 0, 1, 2]), torch.tensor([0, 0, 1, 1, 0])
    # Class 0: precision 2/3, recall 2/3; class 1: 1/2, 1; class 2: never guessed.
    assert state_probe.weighted_f1(guessed, truth) == pytest.approx((3 * 2 / 3 + 2 / 3 + 0) / 5)
    assert state_probe.weighted_f1(truth, truth) == 1.0


def test_what_is_linear_in_the_features_is_found_and_what_is_not_there_is_not() -> None:
    chance = torch.Generator().manual_seed(0)
    classes = torch.randint(0, 5, (800, 2), generator=chance)
    features = torch.nn.functional.one_hot(classes[:, 0], 5).float() + 0.1 * torch.randn(800, 5, generator=chance)
    part = torch.arange(800) % 4 % 3
    guessed = state_probe.fit_classes(features, classes, part)
    truth = classes[part == 2]
    assert state_probe.weighted_f1(guessed[:, 0], truth[:, 0]) > 0.95
    assert state_probe.weighted_f1(guessed[:, 1], truth[:, 1]) < 0.4


def test_entropy_is_in_nats() -> None:
    assert state_probe.entropy(torch.tensor([3, 3, 7, 7])) == pytest.approx(0.6931, abs=1e-4)
    assert state_probe.entropy(torch.tensor([3, 3])) == 0.0


def test_there_are_ten_games_or_more_and_every_address_is_in_the_memory() -> None:
    assert len(STATE) >= 10
    for game in STATE:
        labels = state_labels(game)
        assert {label.category for label in labels} <= set(CATEGORIES)
        assert all(0 <= label.address < 128 for label in labels)
    with pytest.raises(ConfigError, match="Breakout"):
        state_labels("Breakot")


def test_too_few_frames_are_refused() -> None:
    with pytest.raises(ConfigError, match="79 frames"):
        state_probe.state_frames("Breakout", 79)


@pytest.mark.slow
def test_the_command_asks_every_representation_of_every_game(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(state_probe, "EPOCHS", 3)
    (tmp_path / "10").mkdir()
    weights = tmp_path / "10" / "Breakout-default-0.safetensors"
    save_weights(StreamingAutoEncoder(AutoEncoderSettings()), weights)
    assert main(["evaluate", "embedding", str(weights), "--frames", "80", "-o", str(tmp_path / "probe.json")]) == 0
    rows = json.loads((tmp_path / "probe.json").read_text())["rows"]
    assert {row["representation"] for row in rows} == {*state_probe.BASELINES, "default"}
    assert {row["category"] for row in rows} >= {"agent", "small"}
    assert all(0 <= row["f1"] <= 1 for row in rows)
    assert "| default | 10 | 1 |" in capsys.readouterr().out
    assert markdown(rows) == (tmp_path / "probe.md").read_text()


def test_a_game_in_which_nothing_happens_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_probe, "LEAST_ENTROPY", 100.0)
    with pytest.raises(ConfigError, match=r"no label of Breakout has 100\.0 nats in 80 frames"):
        state_probe.state_frames("Breakout", 80)


def test_a_device_that_is_none_is_told_before_games_are_played(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["Breakout-default-0.safetensors", "--device", "gpu", "-o", str(tmp_path / "probe.json")]
    assert main(["evaluate", "embedding", *words]) == 1
    assert "device 'gpu' cannot be used" in capsys.readouterr().err


def test_a_game_without_labels_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = tmp_path / "Assault-default-0.safetensors"
    save_weights(StreamingAutoEncoder(AutoEncoderSettings()), weights)
    assert main(["evaluate", "embedding", str(weights), "-o", str(tmp_path / "probe.json")]) == 1
    assert "no labels are known for 'Assault'" in capsys.readouterr().err
