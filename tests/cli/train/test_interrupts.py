"""Ctrl+C and SIGTERM, in every train command: saved, status 130, and resumed as if nothing had happened."""

from __future__ import annotations

import os
import shutil
import signal
from typing import TYPE_CHECKING, Any

import pytest
import torch

from reelrl.runs.overview import overview
from reelrl.runs.saving import Saving
from tests.cli.train.trainings import EXACT, TRAININGS
from tests.runs.outcome import outcome

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.runs.folder import RunFolder

pytestmark = pytest.mark.slow

# Both signals take the same way through `Saving`: one training tries the second each time, the others in their tier.
ASKED = [
    *(pytest.param(kind, signal.SIGINT, id=f"{kind}-ctrl-c") for kind in TRAININGS),
    *(
        pytest.param(kind, signal.SIGTERM, id=f"{kind}-sigterm", marks=[] if kind == "abr" else pytest.mark.long)
        for kind in TRAININGS
    ),
]
KINDS = pytest.mark.parametrize("kind", TRAININGS)


@pytest.fixture(autouse=True)
def quick(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setenv("REELRL_CACHE", str(tmp_path_factory.getbasetemp() / "interrupts-cache"))
    monkeypatch.delenv("REELRL_DATA", raising=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trainings")


_WHOLE: dict[str, RunFolder] = {}


def whole(kind: str, folder: Path) -> RunFolder:
    """The training that nobody stopped, and that no clock saved."""
    if kind not in _WHOLE:
        root = folder / f"{kind}-whole"
        assert TRAININGS[kind].start(root, "--save-every", "inf") == 0
        _WHOLE[kind] = TRAININGS[kind].run(root)
    return _WHOLE[kind]


def press_at_the_first_place(patch: pytest.MonkeyPatch, *pressed: signal.Signals) -> None:
    """Signals that arrive just before the first place where the training can be saved."""
    reached = Saving.reached
    left = list(pressed)

    def pressed_first(self: Saving, *args: Any, **how: Any) -> None:
        while left:
            os.kill(os.getpid(), left.pop())
        reached(self, *args, **how)

    patch.setattr(Saving, "reached", pressed_first)


@pytest.mark.parametrize(("kind", "asked_by"), ASKED)
def test_an_early_interrupt_saves_and_a_resumed_run_ends_with_the_same_bits(
    kind: str,
    asked_by: signal.Signals,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    training, root = TRAININGS[kind], folder / f"{kind}-{asked_by.name}"
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    with monkeypatch.context() as patch:
        press_at_the_first_place(patch, asked_by)
        assert training.start(root, "--save-every", "inf") == 130
    run = training.run(root)
    said = capsys.readouterr().out.splitlines()
    assert any(line.startswith("stop   after this") for line in said)
    assert said[-2].startswith("stopped")
    assert said[-2].endswith("saved")
    assert said[-1] == f"next   reel train {kind} --resume {run.folder}"
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers
    saved = run.checkpoints.latest()
    assert saved is not None
    assert training.resume(root) == 0
    if kind in EXACT:
        assert outcome(run) == outcome(whole(kind, folder))
    else:
        assert [line["step"] for line in run.metrics()] == [12, 24, 36]


@KINDS
def test_a_list_of_runs_knows_how_well_it_did(kind: str, folder: Path) -> None:
    listed = overview(whole(kind, folder).folder)
    assert (listed.stage, listed.state) == (kind, "done")
    assert listed.best is not None


@pytest.mark.parametrize("kind", EXACT)
def test_what_is_learned_does_not_depend_on_when_it_is_saved(kind: str, folder: Path) -> None:
    training, root = TRAININGS[kind], folder / f"{kind}-everywhere"
    assert training.start(root, "--save-every", "0") == 0
    assert outcome(training.run(root)) == outcome(whole(kind, folder))


@KINDS
def test_a_second_signal_ends_at_once_and_tells_how_to_go_on(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    training = TRAININGS[kind]
    press_at_the_first_place(monkeypatch, signal.SIGTERM, signal.SIGINT)
    assert training.start(tmp_path / "runs", "--save-every", "inf") == 130
    run = training.run(tmp_path / "runs")
    assert not run.checkpoints.all()
    said = capsys.readouterr().out.splitlines()
    assert said[-2] == "stopped at once                    nothing was saved"
    assert said[-1] == f"next   reel train {kind} --resume {run.folder}"


@pytest.mark.parametrize("kind", EXACT)
def test_a_checkpoint_without_what_a_training_needs_is_an_error_of_one_line(
    kind: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whole by its checksums, and yet of something else."""
    training, root = TRAININGS[kind], tmp_path / "runs"
    shutil.copytree(whole(kind, folder).folder.parent, root)
    run = training.run(root)
    newest = run.checkpoints.latest()
    assert newest is not None
    run.checkpoints.save(newest.step, {}, {"logs": newest.state.get("logs", {})}, config=newest.config)
    assert training.resume(root) == 1
    assert "does not fit this training" in capsys.readouterr().err
