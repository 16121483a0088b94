"""`reel train atari` and what follows it: what it leaves and says, what it refuses, the judgement and the film."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import av
import numpy as np
import pytest
import torch

from reelrl.act.atari.settings import AtariTraining
from reelrl.act.video.encoder import ClipShape, VideoEncoderSettings, make_video_encoder
from reelrl.cli.main import main
from reelrl.content.sources import open_clip
from reelrl.errors import ConfigError, ReelError
from reelrl.runs.folder import RunFolder
from tests.content.games.corridor import HERE, corridor

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

SMALL = ["--device", "cpu", "--set", "player.net.hidden=[8]", "--set", "log_every=20"]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def train(root: Path, *more: str) -> int:
    return main(["train", "atari", "--output-dir", str(root), *SMALL, *more])


def only_run(root: Path) -> RunFolder:
    (folder,) = root.iterdir()
    return RunFolder(folder)


def test_it_says_what_it_does_and_leaves_a_run(run_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(run_root, "--source", "gym:CartPole-v1", "--frames", "120") == 0
    run = only_run(run_root)
    said = capsys.readouterr().out
    assert "source gym:CartPole-v1" in said
    assert "2 actions" in said
    assert "frame  120 / 120" in said
    assert said.splitlines()[-1] == f"next   reel evaluate {run.folder}"
    assert run.settings(AtariTraining).player.observation == "numbers"
    assert [line["step"] for line in run.metrics()] == [20, 40, 60, 80, 100, 120]
    assert any("return" in line for line in run.metrics())
    episodes = list(run.episodes())
    assert [each["episode"] for each in episodes] == list(range(len(episodes)))
    assert all(each["return"] == each["actions"] for each in episodes)
    assert list((run.folder / "tb").iterdir())


def test_an_atari_game_is_seen_through_an_autoencoder_with_named_settings(run_root: Path) -> None:
    widths = ["--set", "player.autoencoder.widths=[[2,2],[2,2],[2,2]]", "--set", "log_every=2"]
    seen = ["--observation", "both", "--autoencoder", "places"]
    assert train(run_root, "--frames", "4", "--algorithm", "actor-critic", *seen, *widths) == 0
    run = only_run(run_root)
    player = run.settings(AtariTraining).player
    assert (player.algorithm, player.observation) == ("actor-critic", "both")
    assert (player.autoencoder.bounded, player.autoencoder.averages, player.autoencoder.loss.small) == (True, True, 5.0)
    assert {"td_error", "value", "psnr"} <= list(run.metrics())[-1].keys()
    weights = run.folder / "artifacts" / "model.safetensors"
    settings = VideoEncoderSettings(model_type="streaming-ae", weights=str(weights))
    doom = make_video_encoder(settings, ClipShape(2, 3, 60, 80))
    saved = run.checkpoints.latest()
    assert saved is not None
    trained = saved.tensors["player.autoencoder.0.model.encoder.branches.0.0.weight"]
    assert np.array_equal(doom.state_dict()["encoder.branches.0.0.weight"].numpy(), trained)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--source", "ale:Breakot"], "did you mean 'Breakout'"),
        (["--source", "ale:Breakout", "--observation", "numbers"], "no numbers; give it --observation pixels"),
        (["--source", f"gym:{HERE}:CorridorUnseen-v0", "--observation", "pixels"], "--observation numbers"),
        (["--source", corridor("continuous")], "a player chooses among a few: Discrete"),
        (["--source", "file:film.mkv"], "unknown word 'file'"),
        (["--set", "player.gamma=2"], "gamma is 2"),
        (["--autoencoder", "nobody"], "nobody"),
    ],
)
def test_what_cannot_be_played_is_one_line_and_leaves_no_run(
    run_root: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(run_root, "--frames", "4", *words) == 1
    said = capsys.readouterr().err.splitlines()
    assert message in said[-1]
    assert not run_root.exists()


def test_a_game_that_dies_is_one_line_and_what_was_learned_is_there(
    run_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(run_root, "--source", corridor("dies"), "--frames", "50") == 1
    assert "died (exit status 3) after 3 pictures; resume from the last checkpoint" in capsys.readouterr().err
    saved = only_run(run_root).checkpoints.latest()
    assert saved is not None
    assert saved.step == 3


@pytest.mark.long
def test_a_clip_is_played_by_a_trained_player(run_root: Path) -> None:
    net = ["--set", "player.net.pixel_layers=[[2, 8, 8]]", "--set", "player.epsilon=[0.5, 0.5]"]
    assert train(run_root, "--frames", "6", *net) == 0
    run = only_run(run_root).folder

    def frames(recipe: str) -> list[bytes]:
        return [frame.y.tobytes() for frame in open_clip(recipe).frames()]

    played = frames(f"atari:Breakout?frames=60&fps=15&player={run}")
    assert len(played) == 60
    assert played == frames(f"atari:Breakout?frames=60&fps=15&player={run}")
    assert played != frames(f"atari:Breakout?frames=60&fps=15&seed=1&player={run}")
    assert played != frames("atari:Breakout?frames=60&fps=15")
    with pytest.raises(ConfigError, match="has learned ale:Breakout; a clip of Assault needs one that plays it"):
        open_clip(f"atari:Assault?player={run}")
    with pytest.raises(ReelError, match="nowhere"):
        open_clip("atari:Breakout?player=nowhere")


def test_a_trained_player_is_judged_and_filmed(
    run_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(run_root, "--source", "gym:CartPole-v1", "--frames", "60") == 0
    run = str(only_run(run_root).folder)
    capsys.readouterr()
    out = tmp_path / "judged"
    assert main(["evaluate", run, "--episodes", "2", "-o", str(out), "--json"]) == 0
    judged = json.loads(capsys.readouterr().out)
    assert judged.keys() == {"chance", run}
    assert judged[run]["episodes"] == 2
    assert len((out / "episodes.csv").read_text().splitlines()) == 5
    film = tmp_path / "game.mp4"
    assert main(["watch", "atari", run, "-o", str(film), "--zoom", "1"]) == 0
    said = capsys.readouterr().out
    with av.open(str(film)) as file:
        pictures = sum(1 for _ in file.decode(video=0))
    assert f"film   {film}" in said
    assert f"{pictures} pictures" in said
