"""`reel sweep` with real trainings of a second: what it leaves, how it goes on, how it ends what lags behind."""

from __future__ import annotations

import csv
import os
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from reelrl.cli.main import main
from reelrl.cli.sweep import TrialTask, run_trial
from reelrl.errors import ConfigError, ContentError
from reelrl.runs.folder import RunFolder
from reelrl.runs.sweep import Sweep, figures_of
from reelrl.runs.sweep_plan import SearchedSetting, SweepPlan
from reelrl.see.train import AutoEncoderTraining
from reelrl.settings import config
from reelrl.stream.train import AbrTraining

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("optuna")
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("_no_recordings")]

QUICK = ["--set=steps=6000", "--set=players=32", "--set=links=20", "--set=validate_every=1", "--set=hidden=16"]
PLAN: dict[str, Any] = {
    "train": "abr",
    "arguments": QUICK,
    "search": {"ppo.learning_rate": {"low": 1.0e-4, "high": 1.0e-2, "log": True}, "ppo.epochs": {"low": 1, "high": 3}},
    "figure": "score",
    "prune": False,
}


@pytest.fixture
def _no_recordings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REELRL_DATA", str(tmp_path / "nothing"))


def sweep(folder: Path, **changes: Any) -> int:
    path = folder / "plan.yaml"
    path.write_text(yaml.safe_dump(PLAN | changes))
    return main(["sweep", str(path), "-o", str(folder / "sweep"), "--seed", "1"])


def trials(folder: Path) -> list[dict[str, str]]:
    with (folder / "sweep" / "trials.csv").open() as file:
        return list(csv.DictReader(file))


def test_a_sweep_leaves_its_table_and_the_best_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep(tmp_path, trials=3) == 0
    table = trials(tmp_path)
    assert [row["state"] for row in table] == ["done"] * 3
    best = max(table, key=lambda row: float(row["value"]))
    settings = config.named(AbrTraining(), tmp_path / "sweep" / "best.yaml")
    assert settings.ppo.learning_rate == pytest.approx(float(best["ppo.learning_rate"]))
    assert settings.ppo.epochs == int(best["ppo.epochs"])
    assert (settings.steps, settings.hidden) == (6000, 16)  # the plan's own arguments too
    run = RunFolder(best["runs"])
    assert run.settings(AbrTraining) == settings
    assert float(best["value"]) == figures_of(run.folder, "score")[-1][1]
    said = capsys.readouterr().out
    assert said.count("trial ") == 3
    assert "ppo.learning_rate" in (tmp_path / "sweep" / "index.html").read_text()
    # Again, with more trials: only those are made. One that a killed driver left unfinished does not count.
    Sweep(tmp_path / "sweep", config.load(SweepPlan, tmp_path / "plan.yaml")).study.ask()
    assert sweep(tmp_path, trials=4) == 0
    assert "weighs" in capsys.readouterr().out  # four trials are enough to tell
    again = trials(tmp_path)
    assert again[:3] == table
    assert [row["state"] for row in again[3:]] == ["failed", "done"]
    assert len({row["ppo.learning_rate"] for row in again if row["state"] == "done"}) == 4  # none is drawn twice
    assert sweep(tmp_path, trials=4, take="best") == 1  # another plan
    assert "holds a sweep with other settings" in capsys.readouterr().err


@pytest.mark.long
def test_without_a_search_every_seed_is_a_trial(tmp_path: Path) -> None:
    assert sweep(tmp_path, search={}, seeds=[3, 4]) == 0
    table = trials(tmp_path)
    assert [(row["seeds"], row["state"]) for row in table] == [("3", "done"), ("4", "done")]
    assert [RunFolder(row["runs"]).seed for row in table] == [3, 4]
    assert table[0]["value"] != table[1]["value"]


@pytest.mark.long
def test_settings_without_a_default_are_among_the_best(tmp_path: Path) -> None:
    source = "generated:street?frames=20&size=64x48"
    small = ["--set=model.widths=[[2,2],[2,2],[2,2]]", "--set=log_every=3", "--frames=7", "--device=cpu"]
    search = {"model.optimiser.lr": {"low": 1.0e-4, "high": 1.0e-2, "log": True}}
    words = [f"--source={source}", *small]
    assert sweep(tmp_path, train="autoencoder", arguments=words, search=search, figure="psnr", trials=1) == 0
    best = yaml.safe_load((tmp_path / "sweep" / "best.yaml").read_text())
    assert (best["source"], best["frames"]) == (source, 7)
    assert best["model"]["optimiser"]["lr"] == pytest.approx(float(trials(tmp_path)[0]["model.optimiser.lr"]))
    again = ["train", "autoencoder", "--config", str(tmp_path / "sweep" / "best.yaml"), "--device", "cpu"]
    assert main([*again, "--output-dir", str(tmp_path / "again")]) == 0
    run = RunFolder(tmp_path / "again" / "0001")
    assert run.settings(AutoEncoderTraining) == RunFolder(trials(tmp_path)[0]["runs"]).settings(AutoEncoderTraining)


def test_a_trial_that_lags_behind_is_ended_and_saved(tmp_path: Path) -> None:
    import optuna

    search = {key: SearchedSetting(**each) for key, each in PLAN["search"].items()}
    longer = tuple("--set=steps=10000000" if word.startswith("--set=steps") else word for word in QUICK)
    plan = SweepPlan(train="abr", arguments=longer, search=search, figure="score", warmup=1)
    made = Sweep.begin(tmp_path, plan, 0)
    far_better = optuna.trial.create_trial(
        params={"ppo.learning_rate": 1e-3, "ppo.epochs": 1},
        distributions={
            "ppo.learning_rate": optuna.distributions.FloatDistribution(1e-4, 1e-2, log=True),
            "ppo.epochs": optuna.distributions.IntDistribution(1, 3),
        },
        value=1e6,
        intermediate_values=dict.fromkeys(range(0, 100_000, 32), 1e6),
    )
    made.study.add_trial(far_better)
    run_trial(TrialTask(str(tmp_path), plan, (0,), data=os.environ["REELRL_DATA"]))
    row = made.rows()[-1]
    assert row.state == "pruned"
    assert row.value is not None
    assert RunFolder(row.runs[0]).checkpoints.all()  # it ended in good order
    assert made.best() == made.rows()[0]


def test_a_machine_with_other_data_makes_no_trial(tmp_path: Path) -> None:
    plan = SweepPlan(train="abr", figure="score")
    with pytest.raises(ContentError, match=r"REELRL_DATA is .*nothing' on this machine and 'other'"):
        run_trial(TrialTask(str(tmp_path), plan, (0,), data="other"))


def test_a_training_that_fails_is_a_row_with_its_error(tmp_path: Path) -> None:
    assert sweep(tmp_path, trials=1, arguments=[*QUICK, "--set=hidden=0"]) == 1
    log = next((tmp_path / "sweep" / "logs").iterdir()).read_text()
    assert "hidden = 0; it is 1 or more" in log


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": "everything"}, "is no train command"),
        ({"arguments": ["--seed", "4"]}, "is the sweep's to give"),
        ({"search": {"hidden": {"low": 3}}}, "give both, or `choices`"),
        ({"search": {"hidden": {"low": 3, "high": 2}}}, "high must be above low"),
        ({"search": {"hidden": {"low": 0, "high": 2, "log": True}}}, "begins above 0"),
        ({"search": {"hidden": {"low": 1, "high": 2, "choices": [1]}}}, "give one of both"),
        ({"trials": 0}, "use one or more of both"),
        ({"tirals": 3}, "unknown setting 'tirals'"),
    ],
)
def test_plans_that_cannot_be_are_refused(
    changes: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep(tmp_path, **changes) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("value", [1e-05, 3e20, 0.25, 7, True, False, "adam"])
def test_chosen_values_are_read_back_as_they_were(value: Any) -> None:
    plan = SweepPlan(train="abr", figure="score")
    word = next(word for word in plan.words({"key": value}, 0, "runs") if word.startswith("--set=key="))
    assert yaml.safe_load(word.removeprefix("--set=key=")) == value


@pytest.mark.parametrize(
    ("take", "goal", "expected"),
    [("last", "maximise", 2.0), ("best", "maximise", 9.0), ("best", "minimise", 1.0), ("mean", "maximise", 3.0)],
)
def test_what_counts_of_a_run(take: Any, goal: Any, expected: float) -> None:
    plan = SweepPlan(train="abr", figure="score", take=take, goal=goal)
    assert plan.taken([1.0, 9.0, 5.0, 6.0, 7.0, 3.0, 4.0, 2.0]) == expected
    with pytest.raises(ConfigError):
        SweepPlan(train="abr", figure="score", seeds=())
