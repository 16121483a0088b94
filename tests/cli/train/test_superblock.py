"""`reel train superblock` on real encoders: what it leaves, how it stops, and that it goes on to the same bytes."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import av
import numpy as np
import pytest
import torch

from reelrl.cli.main import main
from reelrl.encode.superblock.env import SuperblockQpEnv
from reelrl.encode.superblock.learned import LearnedMap, load_map_controller
from reelrl.encode.superblock.prepared_clip import PreparedClip
from reelrl.encode.superblock.train import SuperblockTrainer, SuperblockTraining
from reelrl.errors import CheckpointError, ConfigError, RunError
from reelrl.runs.folder import Run, RunFolder
from reelrl.settings import config
from tests.runs.outcome import outcome
from tests.waiting import HANG_S

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

CLIP = "generated:street?size=128x96&frames=6"
SHORT = ["--total-iteration", "8", "--eval-freq", "20", "--save-freq", "12", "--set", "learner.hidden=[8]"]
DQN = ["--algorithm", "dqn", "--batch-size", "8", "--set", "learner.dqn.starts=10"]
# A rollout of 10 on episodes of 6: checkpoints fall into the middle of episodes.
VARIANTS = {
    "ppo": ["--n-steps", "10"],
    "dqn": DQN,
    "features": ["--action", "features", "--state", "feedback"],
    "svtav1": ["--backend", "svtav1"],
    "episodes": ["--rollout", "3", "--action", "features"],
    "episodes-dqn": [*DQN, "--rollout", "3"],
}


@pytest.fixture(autouse=True)
def quick(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setenv("REELRL_CACHE", str(tmp_path_factory.getbasetemp() / "superblock-cache"))


def train(folder: Path, *more: str) -> int:
    return main(["train", "superblock", "--file", CLIP, "--output-dir", str(folder), *SHORT, *more])


def test_workers_without_episodes_to_play_are_told_to_have_no_effect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "superblock", "--file", str(tmp_path / "none.y4m"), "--workers", "2"]) == 1
    assert "--workers and --ray have no effect without --rollout" in capsys.readouterr().err


def frames_in(path: Path) -> int:
    with av.open(path) as container:
        return sum(1 for _ in container.decode(video=0))


def press_at(episode: int, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl+C when so many episodes have ended."""
    note = SuperblockTrainer._note
    ended: list[int] = []

    def noted(self: SuperblockTrainer, step: int, info: dict[str, Any]) -> None:
        note(self, step, info)
        ended.append(step)
        if len(ended) == episode:
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(SuperblockTrainer, "_note", noted)


def test_a_training_leaves_model_streams_monitor_and_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(tmp_path) == 0
    run = RunFolder(tmp_path / "0001")
    names = {path.name for path in run.artifacts.iterdir()}
    assert names == {
        "baseline_output.ivf",
        "best_ppo_model.safetensors",
        "final_encoder_video.ivf",
        "final_ppo_model.safetensors",
        "monitor.csv",
    }
    assert frames_in(run.artifacts / "baseline_output.ivf") == 6
    assert frames_in(run.artifacts / "final_encoder_video.ivf") == 6
    assert (run.stage, run.meta["facts"]["frames"]) == ("superblock", 6)
    assert len(list(run.episodes())) == 8
    assert [line["step"] for line in run.metrics() if "eval/reward" in line] == [24, 42, 48]
    assert list((run.folder / "tb").iterdir())
    printed = capsys.readouterr().out
    assert printed.splitlines()[-1].startswith("next   reel evaluate superblock")
    assert "steps/s" in printed
    assert "left" in printed


@pytest.mark.long
@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_agents_learn_on_the_real_encoder_that_finer_quantisers_gain_psnr(algorithm: str, tmp_path: Path) -> None:
    """Random maps gain nothing; offsets of -3 everywhere gain most. Some hundred frames are enough to find them."""
    more = ["--algorithm", algorithm, "--total-iteration", "70", "--n-steps", "30", "--learning-rate", "3e-3"]
    terms = ("discount=0.5", "dqn.starts=60", "dqn.target_every=60", "dqn.explore_share=0.6", "hidden=[32]")
    sets = [word for term in terms for word in ("--set", f"learner.{term}")]
    assert train(tmp_path, *more, *sets, "--eval-freq", "1000") == 0
    finest = sum(step_gains(SuperblockQpEnv(CLIP), np.zeros(4, np.int64)))
    last = list(RunFolder(tmp_path / "0001").metrics())[-1]
    assert last["eval/reward"] > 0.75 * finest


def step_gains(env: SuperblockQpEnv, action: Any) -> list[float]:
    env.reset(seed=0)
    return [env.step(action)[1] for _ in range(env.clip.frame_count)]


def test_the_monitor_is_a_json_line_and_a_table(tmp_path: Path) -> None:
    assert train(tmp_path) == 0
    run = RunFolder(tmp_path / "0001")
    first, *table = (run.artifacts / "monitor.csv").read_text().splitlines()
    assert json.loads(first.removeprefix("#"))["env_id"] == "reelrl/SuperblockQP-v0"
    rows = list(csv.DictReader(table))
    assert list(rows[0]) == ["r", "l", "t"]
    assert [int(row["l"]) for row in rows] == [6] * 8
    assert [float(row["r"]) for row in rows] == pytest.approx([line["reward"] for line in run.episodes()], abs=1e-6)
    times = [float(row["t"]) for row in rows]
    assert times == sorted(times)


@pytest.mark.parametrize(
    "variant", [pytest.param(name, marks=() if name in ("ppo", "features") else pytest.mark.long) for name in VARIANTS]
)
def test_ctrl_c_saves_and_a_resumed_run_goes_on_to_the_same_bytes(
    variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = VARIANTS[variant]
    assert train(tmp_path / "whole", *options) == 0
    with monkeypatch.context() as patch:
        press_at(4, 1, patch)
        assert train(tmp_path / "halves", *options) == 130
    halves, whole = RunFolder(tmp_path / "halves" / "0001"), RunFolder(tmp_path / "whole" / "0001")
    assert frames_in(halves.artifacts / "interrupted_encoder_video.ivf") == 6
    assert len(list(halves.artifacts.glob("interrupted_*_model.safetensors"))) == 1
    assert "--resume" in capsys.readouterr().out.splitlines()[-1]
    assert main(["train", "superblock", "--resume", str(halves.folder)]) == 0
    assert outcome(halves) == outcome(whole)
    for name in ("final_encoder_video.ivf", f"final_{whole.settings(SuperblockTraining).algorithm}_model.safetensors"):
        assert (halves.artifacts / name).read_bytes() == (whole.artifacts / name).read_bytes()
    lines = (halves.artifacts / "monitor.csv").read_text().splitlines()
    assert len(lines) == 2 + len(list(whole.episodes()))


def test_n_iterations_resumed_to_2n_equal_2n_at_once(tmp_path: Path) -> None:
    assert train(tmp_path / "whole") == 0
    assert train(tmp_path / "halves", "--total-iteration", "4") == 0
    assert main(["train", "superblock", "--resume", str(tmp_path / "halves/0001"), "--total-iteration", "8"]) == 0
    assert outcome(RunFolder(tmp_path / "halves/0001")) == outcome(RunFolder(tmp_path / "whole/0001"))


def test_ctrl_c_on_the_real_command(tmp_path: Path) -> None:
    """As a terminal does it: SIGINT to the process, which answers with status 130 and says how to go on."""
    command = [sys.executable, "-m", "reelrl.cli.main", "train", "superblock", "--file", CLIP]
    with subprocess.Popen(
        [*command, "--output-dir", str(tmp_path), "--total-iteration", "100000"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        monitor = tmp_path / "0001-superblock-ppo" / "artifacts" / "monitor.csv"
        for _ in range(2):
            process.stdout.readline()
        while len(monitor.read_text().splitlines()) < 4 and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 130
    assert printed.splitlines()[-1].startswith("next   reel train superblock --resume")
    assert frames_in(monitor.with_name("interrupted_encoder_video.ivf")) == 6


def test_two_ctrl_c_stop_at_once_and_still_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    press_at(1, 2, monkeypatch)
    assert train(tmp_path, "--n-steps", "30") == 130
    artifacts = RunFolder(tmp_path / "0001").artifacts
    assert frames_in(artifacts / "interrupted_encoder_video.ivf") == 6
    assert (artifacts / "interrupted_ppo_model.safetensors").exists()


def test_several_clips_are_learned_on_together(tmp_path: Path) -> None:
    assert train(tmp_path, "--file", CLIP, "generated:noise?size=128x96&frames=6", "--total-iteration", "2") == 0
    run = RunFolder(tmp_path / "0001")
    assert len(list(run.episodes())) == 4
    assert frames_in(run.artifacts / "clip-2" / "final_encoder_video.ivf") == 6
    with pytest.raises(ConfigError, match="256 x 96"):
        SuperblockTrainer(SuperblockTraining(files=(CLIP, "generated:street?size=256x96&frames=6")), 0)


def test_a_clip_is_prepared_once_for_training_and_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare, prepared = PreparedClip.__init__, []

    def counted(self: PreparedClip, video: str, *args: Any, **kwargs: Any) -> None:
        prepared.append(video)
        prepare(self, video, *args, **kwargs)

    monkeypatch.setattr(PreparedClip, "__init__", counted)
    clips = (CLIP, CLIP.replace("street", "noise"))
    trainer = SuperblockTrainer(SuperblockTraining(files=clips), 0)
    assert prepared == list(clips)
    normalisations = [env.normalisation for env in (*trainer.envs, *trainer.judges)]
    assert all(each is trainer.normalisation for each in normalisations)
    trainer.close()


@pytest.mark.long
def test_a_policy_over_features_moves_to_clips_of_other_sizes(tmp_path: Path) -> None:
    files = ["--file", CLIP, "generated:noise?size=192x128&frames=4"]
    assert train(tmp_path, *files, "--action", "features", "--state", "summary", "--reward", "weighted") == 0
    controller = load_map_controller(str(tmp_path / "0001"))
    assert controller.env_options["weights"] == "centre"
    env = SuperblockQpEnv("generated:pan?size=256x192&frames=3", **controller.env_options)
    observation, _ = env.reset(seed=0)
    controller.reset(0, env)
    assert env.action_space.contains(controller.act(observation))


@pytest.mark.parametrize("variant", ["ppo", "dqn", "features"])
def test_a_run_is_a_controller_of_maps(variant: str, tmp_path: Path) -> None:
    assert train(tmp_path, *VARIANTS[variant]) == 0
    controller = load_map_controller(str(tmp_path / "0001"))
    assert isinstance(controller, LearnedMap)
    assert not controller.privileged
    env = SuperblockQpEnv(CLIP, **controller.env_options)
    for _ in range(2):  # again: nothing may be left over from the first episode
        observation, _ = env.reset(seed=0)
        controller.reset(0, env)
        ended, reward = False, 0.0
        while not ended:
            action = controller.act(observation)
            assert env.action_space.contains(action)
            observation, gain, ended, _, _ = env.step(action)
            reward += gain
        evaluations = [line for line in RunFolder(tmp_path / "0001").metrics() if "eval/reward" in line]
        assert reward == pytest.approx(max(line["eval/reward"] for line in evaluations), abs=1e-9)


def test_dqn_learns_weights_of_features_in_levels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(tmp_path, *DQN, "--action", "features") == 0
    assert "9 branches x 7" in capsys.readouterr().out
    controller = load_map_controller(str(tmp_path / "0001"))
    assert len(controller.policy.levels) == 7


def test_controllers_by_name_and_places_without_one(tmp_path: Path) -> None:
    assert load_map_controller("variance-map(0.25)").weights.max() == 0.25
    with pytest.raises(RunError):
        load_map_controller(str(tmp_path / "nothing"))
    with pytest.raises(CheckpointError):
        load_map_controller(str(tmp_path / "nothing.safetensors"))


def test_a_map_policy_refuses_clips_of_another_size(tmp_path: Path) -> None:
    assert train(tmp_path, "--total-iteration", "1") == 0
    env = SuperblockQpEnv("generated:street?size=256x96&frames=2")
    with pytest.raises(ConfigError, match="4 superblocks and this clip has 8"):
        load_map_controller(str(tmp_path / "0001")).reset(0, env)


def test_options_settings_and_presets_meet(tmp_path: Path) -> None:
    more = ["--config", "av1-gym", "--learning_rate", "0.01", "--disable_observation_normalization"]
    assert train(tmp_path, *more, "--lambda-rd", "0.3", "--reward", "rd", "--seed", "5") == 0
    run = RunFolder(tmp_path / "0001")
    settings = run.settings(SuperblockTraining)
    assert settings.learner.learning_rate == 0.01
    assert settings.learner.hidden == (8,)
    assert (settings.normalise, settings.lambda_rd, settings.reward, run.meta["seed"]) == (False, 0.3, "rd", 5)


def test_av1_gym_holds_the_older_gyms_hyper_parameters() -> None:
    settings = config.named(SuperblockTraining(), "av1-gym")
    ppo, dqn, learner = settings.learner.ppo, settings.learner.dqn, settings.learner
    assert (learner.learning_rate, learner.batch_size, learner.n_steps, learner.discount) == (3e-4, 64, -1, 0.99)
    assert (ppo.epochs, ppo.trace_decay, ppo.clip, ppo.entropy, ppo.value, ppo.gradient_norm) == (
        10, 0.95, 0.2, 0.01, 0.5, 0.5
    )  # fmt: skip
    assert (dqn.buffer, dqn.starts, dqn.tau, dqn.train_every, dqn.target_every) == (100_000, 1000, 1.0, 4, 1000)
    assert (dqn.explore_start, dqn.explore_end, dqn.explore_share) == (1.0, 0.02, 0.1)
    assert (settings.total_iteration, settings.lambda_rd, settings.max_frames) == (50, 0.1, 100)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--file", "nowhere.y4m"], "nowhere.y4m"),
        (["--max-frames", "0"], "max_frames = 0"),
        (["--total-iteration", "0"], "total_iteration = 0"),
        (["--state", "naiv"], "did you mean 'naive'"),
        (["--reward", "psnr"], "psnr_gain"),
        (["--set", "learner.ppo.epoch=3"], "did you mean 'learner.ppo.epochs'"),
    ],
)
def test_what_cannot_be_right_leaves_no_run_behind(
    options: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(tmp_path / "runs", *options) == 1
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_without_a_clip_the_message_says_how_to_give_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "superblock"]) == 1
    assert "--file" in capsys.readouterr().err


def test_a_run_of_another_stage_is_not_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Run.create(tmp_path, SuperblockTraining(), stage="abr", name="other") as run:
        pass
    assert main(["train", "superblock", "--resume", str(run.folder)]) == 1
    assert "reel train abr" in capsys.readouterr().err


def test_without_the_learning_packages_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith(("reelrl.agents", "reelrl.encode.superblock.train"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    assert train(tmp_path) == 1
    assert "pip install 'reelrl[train]'" in capsys.readouterr().err


def test_weights_depend_on_the_seed(tmp_path: Path) -> None:
    for seed in ("1", "1", "2"):
        assert train(tmp_path, "--total-iteration", "2", "--seed", seed) == 0
    runs = [outcome(RunFolder(tmp_path / f"000{number}"))["tensors"] for number in (1, 2, 3)]
    weight = next(name for name in runs[0] if name.startswith("policy.action_net.weight"))
    assert runs[0] == runs[1]
    assert runs[0][weight] != runs[2][weight]
