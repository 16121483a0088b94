"""`reel train minigop` on real encoders: what it leaves, how it stops, and that it goes on to the same bits."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch

from reelrl.cli.main import main, with_dashes
from reelrl.content.sources import open_clip
from reelrl.encode.minigop.controllers.learned import LearnedMiniGop, load_minigop_controller
from reelrl.encode.minigop.run import run_controller
from reelrl.encode.minigop.source.preparation import open_source
from reelrl.encode.minigop.state import NAMES
from reelrl.encode.minigop.train import MiniGopTrainer
from reelrl.encode.minigop.training.videos import data_set, parse_video
from reelrl.errors import CheckpointError, ConfigError, ContentError
from reelrl.runs import checkpoint_file, policy_file
from reelrl.runs.folder import RunFolder
from reelrl.runs.policy_file import Policy
from tests.runs.outcome import outcome

pytestmark = pytest.mark.slow

CLIPS = ["generated:cuts?size=64x64&frames=40", "generated:street?size=64x64&frames=36"]
QUICK = ["--base", "none", "--set", "preset=12", "--set", "sac.starts=4", "--set", "sac.batch_size=4"]
QUICK += ["--set", "sac.hidden=[8]", "--set", "qps=[40,44]"]


@pytest.fixture(autouse=True)
def quick(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setenv("REELRL_CACHE", str(tmp_path_factory.getbasetemp() / "minigop-cache"))


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """A raw file whose name tells its size."""
    path = tmp_path / "data" / "cuts_64x64_30.yuv"
    path.parent.mkdir()
    path.write_bytes(b"".join(frame.data.tobytes() for frame in open_clip(CLIPS[0])))
    return path


def train(folder: Path, *more: str) -> int:
    return main(["train", "minigop", "--output-dir", str(folder), *QUICK, *more])


def clips(folder: Path, *more: str) -> int:
    return train(folder, "--clip", *CLIPS, *more)


def frames_in(path: Path) -> int:
    with av.open(path) as container:
        return sum(1 for _ in container.decode(video=0))


def test_a_training_leaves_a_policy_checkpoints_and_figures(tmp_path: Path) -> None:
    assert clips(tmp_path, "--epochs", "3", "--ckpt-interval", "2", "--ckpt_dir", str(tmp_path / "kept")) == 0
    run = RunFolder(tmp_path / "0001")
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == [
        "checkpoint_epoch_2.pt",
        "checkpoint_epoch_3.pt",
    ]
    episodes = list(run.episodes())
    assert [one["episode"] for one in episodes] == [0, 1, 2, 3, 4, 5]
    # Every epoch codes every video once.
    assert all({one["video"] for one in episodes[i : i + 2]} == set(CLIPS) for i in (0, 2, 4))
    logged = {name for line in run.metrics() for name in line}
    assert {"episode/return", "episode/cost", "episode/rate_error", "train/multiplier_0", "train/alpha"} <= logged
    assert list((run.folder / "tb").iterdir())
    controller = load_minigop_controller(str(tmp_path / "0001"))
    played = run_controller(open_source(open_clip(CLIPS[0]), kbps=30), controller)
    assert len(played.deltas) == 3
    assert played.think_s / len(played.deltas) < 1e-3


def test_stopped_by_ctrl_c_and_resumed_equals_the_uninterrupted_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert clips(tmp_path / "whole", "--epochs", "3") == 0
    note = MiniGopTrainer._note

    def press(self: MiniGopTrainer, number: int, *rest: Any) -> Any:
        if number == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return note(self, number, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(MiniGopTrainer, "_note", press)
        assert clips(tmp_path / "halves", "--epochs", "3") == 130
    assert "--resume" in capsys.readouterr().out
    np.random.seed(5)
    assert main(["train", "minigop", "--resume", str(tmp_path / "halves" / "0001")]) == 0
    assert outcome(RunFolder(tmp_path / "halves" / "0001")) == outcome(RunFolder(tmp_path / "whole" / "0001"))


@pytest.mark.long
def test_a_rollout_side_by_side_teaches_what_it_teaches_one_after_the_other(tmp_path: Path) -> None:
    assert clips(tmp_path / "workers", "--epochs", "2", "--rollout", "2", "--workers", "2") == 0
    assert clips(tmp_path / "here", "--epochs", "2", "--rollout", "2") == 0
    assert clips(tmp_path / "learning", "--epochs", "2") == 0
    workers, here, learning = (outcome(RunFolder(tmp_path / name / "0001")) for name in ("workers", "here", "learning"))
    assert workers == here
    # The first episode is the same; later ones are played by a policy that has learned less.
    assert here["episodes"][0] == learning["episodes"][0]
    assert here["episodes"] != learning["episodes"]


def test_a_loaded_checkpoint_with_its_buffer_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    assert clips(tmp_path / "whole", "--epochs", "2", "--save-replay-buffer", "--ckpt-interval", "1") == 0
    first = tmp_path / "whole" / "0001-minigop-sac" / "artifacts" / "checkpoint_epoch_1.pt"
    assert clips(tmp_path / "again", "--epochs", "2", "--load-checkpoint", str(first)) == 0
    whole, again = (RunFolder(tmp_path / name / "0001") for name in ("whole", "again"))
    assert [one["episode"] for one in again.episodes()] == [2, 3]  # the total to reach
    assert all(outcome(again)[part] == outcome(whole)[part] for part in ("step", "tensors", "state"))


def test_a_checkpoint_is_small_without_the_buffer_and_epochs_can_be_numbered(tmp_path: Path) -> None:
    assert clips(tmp_path, "--start-epoch", "4", "--epochs", "4", "--no-tensorboard") == 0
    run = RunFolder(tmp_path / "0001")
    found = checkpoint_file.load(run.artifacts / "checkpoint_epoch_4.pt")
    assert not any(name.startswith("replay.") for name in found.tensors)
    assert not list((run.folder / "tb").iterdir())


def test_infer_codes_each_video_once_and_learns_nothing(tmp_path: Path, raw: Path) -> None:
    assert clips(tmp_path, "--epochs", "1") == 0
    saved = tmp_path / "0001-minigop-sac" / "artifacts" / "checkpoint_epoch_1.pt"
    out, table = tmp_path / "out.ivf", tmp_path / "out.csv"
    video = f"--input|{raw}|--frames|0|--o|{out}|--csv|{table}|--bitrate|30"
    assert train(tmp_path, "--mode", "infer", "--load_checkpoint", str(saved), "--videos", video) == 0
    assert frames_in(out) == 40
    assert len(table.read_text().splitlines()) == 41
    run = RunFolder(tmp_path / "0002")
    assert len(list(run.episodes())) == 1
    assert not run.checkpoints.all()


def test_a_data_set_is_coded_by_stem_and_missing_logs_are_made(tmp_path: Path, raw: Path) -> None:
    options = ["--use-dataset", "--dataset-inputs", str(raw.parent / "*.yuv"), "--kbps", "20-40", "--epochs", "1"]
    assert train(tmp_path, *options, "--stat-dir", str(tmp_path / "logs"), "--out-dir", str(tmp_path / "out")) == 0
    assert (tmp_path / "logs" / "cuts_64x64_30.log").exists()
    assert sorted(path.suffix for path in (tmp_path / "out").iterdir()) == [".csv", ".ivf"]


def test_a_foreign_encoder_is_trained_through_its_folder(tmp_path: Path, raw: Path) -> None:
    encoder = str(Path(sys.executable).parent / "reel-encoder")
    flags = (
        f"--input|{raw}|--o|{tmp_path / 'out.ivf'}|--bitrate|30|--pass|2|--stat-in|{tmp_path / 'p1.log'}|--preset|12"
    )
    options = ["--encoder", encoder, "--rl-dir", str(tmp_path / "rl_io"), "--videos", flags, "--epochs", "1"]
    assert train(tmp_path, *options) == 0
    assert (tmp_path / "p1.log").exists()
    assert frames_in(tmp_path / "out.ivf") == 40
    [episode] = RunFolder(tmp_path / "0001").episodes()
    assert len(episode["deltas"]) == 3


def test_baselines_replace_the_curve_of_the_probes(tmp_path: Path) -> None:
    points = [{"qp": qp, "kbps": kbps, "psnr_y": 99.0, "ssim_y": 0.9} for qp, kbps in ((30, 90.0), (50, 9.0))]
    clip = open_clip(CLIPS[0])
    facts = {"content_hash": clip.content_hash, "frames": clip.frame_count, "points": points}
    (tmp_path / "crf.json").write_text(json.dumps({"schema": 1, "clips": {clip.name: facts}}))
    options = ["--clip", CLIPS[0], "--kbps", "30", "--epochs", "1", "--baseline-stats", str(tmp_path / "crf.json")]
    assert train(tmp_path, *options) == 0
    [episode] = RunFolder(tmp_path / "0001").episodes()
    # Nobody reaches a curve at 99 dB; the reward says by how much.
    assert episode["return"] == pytest.approx(episode["psnr_y"] - 99, abs=0.01)


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_each_log_level_says_more(level: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(tmp_path, "--clip", CLIPS[1], "--epochs", "1", "--log-level", str(level)) == 0
    words = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert [word in words for word in ("epoch", "video", "mg")] == [level > 0, level > 1, level > 2]
    assert (level == 0) == (not words)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "nothing to learn on"),
        (["--videos", "--o|x.ivf"], "no --input"),
        (["--videos", "--input|a.yuv|--o"], "has no value"),
        (["--use-dataset"], "belong together"),
        (["--use-dataset", "--dataset-inputs", "/nowhere/*.yuv"], "matches no file"),
        (["--clip", CLIPS[0], "--encoder", "reel-encoder"], "not --clip"),
        (["--clip", CLIPS[0], "--epochs", "0"], "1 or more"),
        (["--clip", CLIPS[0], "--load-checkpoint", "/nowhere.pt"], "no such file"),
    ],
)
def test_bad_input_is_explained(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(tmp_path, *options) == 1
    assert said in capsys.readouterr().err


def test_words_with_bars_are_values_and_keep_their_underscores() -> None:
    typed = ["--ckpt_dir", "a_b", "--videos", "--input|my_in.yuv", "--input|b_c.yuv", "--log_level", "2"]
    meant = ["--ckpt-dir", "a_b", "--videos=--input|my_in.yuv", "--videos=--input|b_c.yuv", "--log-level", "2"]
    assert with_dashes(typed) == meant


def test_line_breaks_between_words_of_a_video_do_not_matter() -> None:
    video = parse_video("--input|in.yuv|\n  --bitrate|2125|--fps|24")
    assert video.words == ["--input", "in.yuv", "--bitrate", "2125", "--fps", "24"]
    assert video.kbps == 2125


def test_logs_of_a_data_set_are_found_whatever_their_ending(tmp_path: Path) -> None:
    (tmp_path / "a.yuv").touch()
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.stat").touch()
    [text] = data_set(str(tmp_path / "*.yuv"), str(tmp_path / "logs"), None)
    assert text.endswith(f"--stat-in|{tmp_path / 'logs' / 'a.stat'}")
    with pytest.raises(ContentError, match="matches no file"):
        data_set(str(tmp_path / "*.mkv"), None, None)


def test_a_checkpoint_file_is_no_pickle_whatever_the_length_of_its_header(tmp_path: Path) -> None:
    path, begins = tmp_path / "c.pt", set()
    for padding in range(0, 256, 8):  # headers have whole multiples of eight bytes
        checkpoint_file.save(path, 1, {"a": np.arange(3.0)}, {"pad": "x" * padding})
        begins.add(path.read_bytes()[0])
        assert checkpoint_file.load(path).state["pad"] == "x" * padding
    assert 0x80 in begins


def test_a_checkpoint_file_comes_back_and_damage_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint_epoch_5.pt"
    checkpoint_file.save(path, 7, {"a": np.arange(6.0).reshape(2, 3)}, {"x": [1, None]})
    found = checkpoint_file.load(path)
    assert (found.step, found.state, found.tensors["a"].tolist()) == (7, {"x": [1, None]}, [[0, 1, 2], [3, 4, 5]])
    body = bytearray(path.read_bytes())
    body[-3] ^= 1
    path.write_bytes(body)
    with pytest.raises(CheckpointError, match="altered"):
        checkpoint_file.load(path)
    path.write_bytes(body[:40])
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        checkpoint_file.load(path)
    path.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(CheckpointError, match="pickle"):
        checkpoint_file.load(path)


def test_policies_of_another_kind_or_version_are_refused(tmp_path: Path) -> None:
    layer = (np.zeros((1, len(NAMES)), np.float32), np.zeros(1, np.float32))
    for facts, said in (
        ({"stage": "superblock"}, "no mini-GOP policy"),
        ({"stage": "minigop", "sees": ["x"], "base": None, "max_delta": 3}, "train it anew"),
    ):
        Policy([layer], "relu", low=(-1.0,), high=(1.0,), bounded="tanh", facts=facts).save(tmp_path / "p.safetensors")
        with pytest.raises(CheckpointError, match=said):
            LearnedMiniGop(tmp_path / "p.safetensors")


def test_a_policy_file_bounds_its_values_in_a_known_way(tmp_path: Path) -> None:
    layer = (np.ones((1, 1), np.float32), np.zeros(1, np.float32))
    Policy([layer], "relu", low=(-2.0,), high=(2.0,), bounded="tanh").save(tmp_path / "p.safetensors")
    loaded = policy_file.load(tmp_path / "p.safetensors")
    assert loaded.act(np.array([0.5])) == pytest.approx(2 * np.tanh(0.5))
    with pytest.raises(ConfigError):
        loaded.act(np.zeros(3))
