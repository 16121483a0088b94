from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from reelrl.errors import ConfigError, RunError
from reelrl.runs.folder import Run, RunFolder, find_run
from reelrl.runs.records import Log, read_records
from reelrl.settings import config

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Settings:
    preset: int = 8
    rate: float = 1e-4


def new_run(root: Path, name: str = "minigop-sac", **facts: Any) -> Run:
    return Run.create(root, Settings(preset=5), stage="minigop", name=name, seed=3, facts=facts)


def test_a_run_has_the_folder_that_the_design_names(run_root: Path) -> None:
    with new_run(run_root) as run:
        run.log_episode({"clip": "a", "reward": 1.5})
        run.log_metrics(10, {"loss": 0.5})
    assert run.folder == run_root / "0001-minigop-sac"
    names = {path.name for path in run.folder.iterdir() if not path.name.startswith(".")}
    assert names == {"config.yaml", "meta.json", "episodes.jsonl", "metrics.jsonl", "tb", "checkpoints", "artifacts"}


def test_a_reader_finds_what_the_writer_left(run_root: Path) -> None:
    with new_run(run_root, encoder="SVT-AV1 4.1.0") as run:
        run.log_episode({"actions": np.arange(3), "psnr": np.float32(40)})
        run.log_metrics(10, {"loss": float("nan"), "reward": 2})
    read = RunFolder(run_root / "0001")
    assert read.stage == "minigop"
    assert read.settings(Settings) == Settings(preset=5)
    assert list(read.episodes()) == [{"actions": [0, 1, 2], "psnr": 40.0}]
    assert list(read.metrics()) == [{"step": 10, "loss": "nan", "reward": 2}]
    assert {"schema": 1, "seed": 3, "number": 1, "facts": {"encoder": "SVT-AV1 4.1.0"}}.items() <= read.meta.items()
    assert config.named(Settings(), run.folder / "config.yaml") == Settings(preset=5)


def test_numbers_count_up_and_are_never_shared(run_root: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda index: new_run(run_root, f"run-{index % 3}"), range(24)))
    numbers = sorted(int(run.folder.name[:4]) for run in runs)
    for run in runs:
        run.close()
    assert numbers == list(range(1, 25))
    (run_root / "0030").mkdir()  # claimed by someone who died before giving it a name
    with new_run(run_root) as run:
        assert run.folder.name == "0031-minigop-sac"


def test_a_second_writer_is_told_who_holds_the_folder(run_root: Path) -> None:
    with new_run(run_root) as run, pytest.raises(RunError, match=rf"written by this process \({os.getpid()}\)"):
        Run.open(run.folder)
    Run.open(run.folder).close()


HOLD = "import sys; from reelrl import Run; run = Run.open(sys.argv[1]); print('held', flush=True); sys.stdin.read()"


def test_a_writer_in_another_process_is_named_and_its_death_frees_the_folder(run_root: Path) -> None:
    new_run(run_root).close()
    command = [sys.executable, "-c", HOLD, str(run_root / "0001")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(RunError, match=f"is being written by process {other.pid}; wait for it, stop it"):
            Run.open(run_root / "0001")
        other.kill()
    Run.open(run_root / "0001").close()


@pytest.mark.parametrize("torn", [b'{"step":2,"lo', b"\x00" * 40, b'{"step":2}'])
def test_a_torn_last_line_is_dropped_on_reopen(run_root: Path, torn: bytes) -> None:
    with new_run(run_root) as run:
        run.log_metrics(1, {"loss": 0.5})
    with (run.folder / "metrics.jsonl").open("ab") as log:
        log.write(torn)
    assert [record["step"] for record in run.metrics()] == [1]
    with Run.open(run.folder) as again:
        again.log_metrics(3, {"loss": 0.25})
    assert [record["step"] for record in run.metrics()] == [1, 3]


def test_a_damaged_line_in_the_middle_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "log").write_text('{"a":1}\n{"a"\n{"a":3}\n')
    with pytest.raises(RunError, match="log line 2 is not JSON"):
        list(read_records(tmp_path / "log"))


def test_a_long_torn_tail_is_found(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"a":1}\n' + b"x" * 200_000)
    log = Log(path)
    log.close()
    assert path.read_bytes() == b'{"a":1}\n'


def test_resume_takes_the_logs_back_to_the_checkpoint(run_root: Path) -> None:
    with new_run(run_root) as run:
        run.log_metrics(1, {"loss": 3.0})
        run.checkpoint(1, {"w": np.ones(2)}, {"rng": 7})
        run.log_metrics(2, {"loss": 2.0})
        run.log_episode({"reward": 1})
    with Run.open(run.folder) as again:
        found = again.resume()
        assert found is not None
        assert (found.step, found.state["rng"]) == (1, 7)
        again.log_metrics(2, {"loss": 2.5})
    assert [record["loss"] for record in run.metrics()] == [3.0, 2.5]
    assert list(run.episodes()) == []
    assert config.loads(Settings, found.config.split("settings:\n")[1].replace("  ", "")) == Settings(preset=5)


def test_resume_without_a_checkpoint_starts_over(run_root: Path) -> None:
    with new_run(run_root) as run:
        run.log_metrics(1, {"loss": 3.0})
        assert run.resume() is None
    assert list(run.metrics()) == []


def test_logs_that_lost_lines_are_not_resumed(run_root: Path) -> None:
    with new_run(run_root) as run:
        run.log_metrics(1, {"loss": 3.0})
        run.checkpoint(1, {}, {})
    (run.folder / "metrics.jsonl").write_bytes(b"")
    with Run.open(run.folder) as again, pytest.raises(RunError, match="has 0 bytes, the checkpoint saw"):
        again.resume()


def test_a_full_disk_keeps_whole_lines(small_disk: Path) -> None:
    with new_run(small_disk / "runs") as run:
        kept = 0

        def fill() -> None:
            nonlocal kept
            while True:
                run.log_episode({"number": kept, "actions": "x" * 3000})
                kept += 1

        with pytest.raises(RunError, match=r"cannot append to .*episodes.jsonl: the disk is full"):
            fill()
    assert [record["number"] for record in run.episodes()] == list(range(kept))
    assert kept > 100


def test_a_size_limit_keeps_whole_lines(run_root: Path) -> None:
    new_run(run_root).close()
    program = (
        "import resource, sys; from reelrl.runs.folder import Run\n"
        "run = Run.open(sys.argv[1]); resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "while True: run.log_episode({'actions': 'x' * 90})"
    )
    command = [sys.executable, "-c", program, str(run_root / "0001")]
    child = subprocess.run(command, capture_output=True, text=True)
    assert "the file grew past the size limit" in child.stderr
    assert len(list(RunFolder(run_root / "0001").episodes())) == 9  # 105 bytes each
    assert (run_root / "0001-minigop-sac" / "episodes.jsonl").read_bytes().endswith(b"\n")


def test_a_run_that_cannot_be_created_leaves_nothing(run_root: Path) -> None:
    with pytest.raises(RunError, match="a record holds object"):
        new_run(run_root, bad=object())
    assert list(run_root.iterdir()) == []


@pytest.mark.parametrize("name", ["", "a/b", "../up", "two words", ".hidden"])
def test_a_name_that_is_no_folder_name_is_refused(run_root: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="run name is"):
        new_run(run_root, name)


def test_a_folder_that_is_no_run_is_refused(run_root: Path) -> None:
    with pytest.raises(RunError, match=r"no run at .*0009: there is no run"):
        find_run(run_root / "0009")


def test_another_schema_is_refused_and_unlocked(run_root: Path) -> None:
    new_run(run_root).close()
    meta = run_root / "0001-minigop-sac" / "meta.json"
    original = meta.read_text()
    meta.write_text(json.dumps({"schema": 2}))
    with pytest.raises(RunError, match="does not have schema 1"):
        Run.open(run_root / "0001")
    meta.write_text(original)
    Run.open(run_root / "0001").close()


def test_closing_twice_is_fine(run_root: Path) -> None:
    run = new_run(run_root)
    run.close()
    run.close()
    with Run.open(run.folder) as again:
        assert again.folder == run.folder


def test_the_runs_own_key_is_kept_for_it(run_root: Path) -> None:
    with new_run(run_root) as run, pytest.raises(ConfigError, match="key 'logs'"):
        run.checkpoint(1, {}, {"logs": 1})
