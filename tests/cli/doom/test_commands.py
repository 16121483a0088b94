"""The commands around a Doom training, from files to film."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

import pytest
import yaml

from reelrl.cli.main import main
from reelrl.cli.train import doom
from reelrl.runs.folder import Run

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.act.marl.settings import DoomTraining

pytestmark = pytest.mark.slow

FEW = (
    "experiment.on_policy_collected_frames_per_batch=12", "experiment.on_policy_n_envs_per_worker=1",
    "experiment.on_policy_minibatch_size=6", "experiment.evaluation=false", "experiment.evaluation_interval=12",
    "experiment.checkpoint_interval=12", "task.max_steps=8", "task.observation_size=[30, 40]",
    "actor.video_encoder_cfg={model_type: cnn, channels: [4, 4], embed_dim: 8}",
    "critic.video_encoder_cfg={model_type: cnn, channels: [4, 4], embed_dim: 8}",
)  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one run of twelve steps."""
    root = tmp_path_factory.mktemp("doom")
    changes = [word for change in FEW for word in ("--set", change)]
    assert main(["train", "doom", "--steps", "12", "--output-dir", str(root), *changes]) == 0
    return root


def test_a_run_is_resumed_watched_and_evaluated(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(runs / "0001-doom-mappo")
    config = runs / "0001-doom-mappo" / "config.yaml"
    content = yaml.safe_load(config.read_text())
    del content["settings"]["collection"]  # as an earlier version wrote it
    config.write_text(yaml.safe_dump(content))
    assert main(["train", "doom", "--resume", run, "--steps", "24"]) == 0
    told = capsys.readouterr().out
    assert "begun by an earlier version, strictly on-policy" in told
    assert "goes on with the learner beside them" in told
    assert "resume step 12" in told
    assert "done   step 24" in told
    film = runs / "match.mp4"
    assert main(["watch", "doom", run, "-o", str(film)]) == 0
    assert "8 pictures" in capsys.readouterr().out
    assert film.read_bytes()[4:8] == b"ftyp"
    out = runs / "evaluation"
    assert main(["evaluate", "doom", run, "--episodes", "1", "-o", str(out), "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert set(table) == {"chance", "sweep", run}
    assert table[run]["episodes"] == 1
    assert json.loads((out / "summary.json").read_text())["teams"] == table
    assert "0001-doom-mappo: return" in (out / "index.html").read_text()


@pytest.mark.long
def test_two_sides_are_trained_watched_and_evaluated_pair_by_pair(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = [word for change in FEW for word in ("--set", change)]
    words = ["--scenario", "duel", "--steps", "12", "--output-dir", str(tmp_path), *changes]
    assert main(["train", "doom", *words]) == 0
    assert "renewed every 10 batches" in capsys.readouterr().out
    run = str(tmp_path / "0001-doom-mappo")
    assert main(["watch", "doom", run, "-o", str(tmp_path / "match.mp4")]) == 0
    assert "8 pictures" in capsys.readouterr().out
    out = tmp_path / "evaluation"
    earlier = f"{run}/artifacts/earlier.safetensors"
    assert main(["evaluate", "doom", run, "--against", earlier, "--episodes", "1", "-o", str(out), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["side A"], row["side B"]) for row in rows] == [
        (run, other) for other in ("chance", "sweep", "fire", "oracle", run, earlier)
    ]
    assert all(row["episodes"] == 1 for row in rows)
    assert "Side A against side B" in (out / "index.html").read_text()


def test_opponents_are_refused_where_a_team_plays_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "doom", "gate", "--against", "gate", "-o", str(tmp_path / "out")]) == 1
    assert "--against gate: nobody is against anybody in gate; leave it out" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_two_sides_are_refused_where_teams_are_compared_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "doom", "--set", "task.sides=2", "--set", "task.config_path=duel"]) == 1
    assert "teams are compared here without opponents" in capsys.readouterr().err


def test_files_that_init_writes_are_fine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "team"
    assert main(["init", "doom", str(folder)]) == 0
    parts = ("task", "actor", "critic", "experiment")
    files = [word for part in parts for word in (f"--{part}", f"{folder}/{part}.yaml")]
    assert main(["check", "doom", *files, "--algorithm-file", f"{folder}/algorithm.yaml"]) == 0
    assert f"reel train doom --task {folder}/task.yaml" in capsys.readouterr().out
    assert main(["init", "doom", str(folder)]) == 1
    assert "already there" in capsys.readouterr().err


def test_check_lists_all_problems_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "team"
    main(["init", "doom", str(folder)])
    task = yaml.safe_load((folder / "task.yaml").read_text())
    (folder / "task.yaml").write_text(yaml.safe_dump(task | {"skip": 0, "num_players": 99}))
    assert main(["check", "doom", "--task", f"{folder}/task.yaml", "--actor", f"{folder}/absent.yaml"]) == 1
    told = capsys.readouterr().out
    for words in ("skip is 0", "num_players is 99", "absent.yaml"):
        assert words in told


def test_settings_that_cannot_be_right_leave_no_run_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ["--set", "task.skipp=3"]
    assert main(["train", "doom", "--output-dir", str(tmp_path / "runs"), *wrong]) == 1
    assert "unknown key 'skipp'" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("words", "activation"), [([], "Tanh"), (["--teach", "9"], "ReLU")])
def test_who_is_taught_has_an_actor_that_learns_from_it(words: list[str], activation: str) -> None:
    settings, _ = settings_of([*words, "--set", "imitation.shown=0.5", "--set", "actor.head_hidden_sizes=[7]"])
    assert settings.actor["activation_class"] == f"torch.nn.{activation}"
    assert settings.actor["head_hidden_sizes"] == [7]
    assert (settings.imitation.steps, settings.imitation.shown) == (9 if words else 0, 0.5)


def test_a_run_without_tasks_that_is_given_workers_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings, seed = settings_of([])
    with Run.create(tmp_path, settings, stage=doom.STAGE, name="x", seed=seed) as run:
        pass
    assert settings_of(["--resume", str(run.folder), "--workers", "2"])[0] == settings
    assert "--workers and --ray have no effect" in capsys.readouterr().err
    assert settings_of(["--workers", "2"])[0].collection.spread
    assert capsys.readouterr().err == ""


def settings_of(words: list[str]) -> tuple[DoomTraining, int]:
    parser = argparse.ArgumentParser()
    doom.add_arguments(parser)
    return doom.settings_and_seed(parser.parse_args(words))
