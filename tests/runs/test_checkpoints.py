from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from reelrl.errors import CheckpointError, RunError
from reelrl.runs.checkpoints import FILES, MANIFEST, Checkpoints, load

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

dtypes = st.sampled_from(["f2", "f4", "f8", "i1", "i4", "i8", "u1", "u8", "?"])
arrays = dtypes.flatmap(lambda kind: hnp.arrays(kind, hnp.array_shapes(min_dims=0, max_dims=3, max_side=3)))
TENSORS = {"weight": np.arange(6, dtype=np.float32).reshape(2, 3)}


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.text("abc.", min_size=1, max_size=4), arrays, max_size=3), st.booleans())
def test_what_was_saved_is_loaded(tmp_path: Path, tensors: dict[str, NDArray[Any]], transpose: bool) -> None:
    saved = {name: value.T if transpose else value for name, value in tensors.items()}
    found = load(Checkpoints(tmp_path).save(7, saved, {"loss": 0.5, "rng": 2**100}, config="a: 1\n"))
    assert (found.step, found.state, found.config) == (7, {"loss": 0.5, "rng": 2**100}, "a: 1\n")
    assert found.tensors.keys() == saved.keys()
    for name, value in saved.items():
        assert found.tensors[name].dtype == value.dtype
        np.testing.assert_array_equal(found.tensors[name], value)


def test_the_newest_k_stay_and_the_last_saved_is_the_latest(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    assert checkpoints.latest() is None
    for step in (10, 20, 5):  # the run went back
        checkpoints.save(step, TENSORS, {})
    assert [path.name for path in checkpoints.all()] == ["00002-step-20", "00003-step-5"]
    found = checkpoints.latest()
    assert found is not None
    assert found.step == 5


@pytest.mark.parametrize("name", [*FILES, MANIFEST])
@pytest.mark.parametrize("damage", ["truncated", "altered", "removed", "emptied"])
def test_a_damaged_checkpoint_is_named_and_passed_over(tmp_path: Path, name: str, damage: str) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, TENSORS, {"a": 1}, config="a: 1\n")
    newest = checkpoints.save(2, TENSORS, {"a": 2}, config="a: 2\n")
    _damage(newest / name, damage)
    with pytest.raises(CheckpointError, match=name):
        load(newest)
    with pytest.warns(RuntimeWarning, match="using 00001-step-1, because .*" + name):
        found = checkpoints.latest()
    assert found is not None
    assert found.step == 1


def _damage(path: Path, damage: str) -> None:
    data = path.read_bytes()
    if damage == "removed":
        path.unlink()
    else:
        # The first byte of a manifest is its brace; altering it cannot go unnoticed.
        path.write_bytes({"truncated": data[:-1], "altered": bytes([data[0] ^ 1]) + data[1:], "emptied": b""}[damage])


def test_when_none_is_whole_the_caller_hears_of_it(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    (checkpoints.save(1, TENSORS, {}) / MANIFEST).unlink()
    with pytest.raises(CheckpointError, match=r"no checkpoint in .* is whole"):
        checkpoints.latest()


def test_another_schema_is_refused(tmp_path: Path) -> None:
    folder = Checkpoints(tmp_path).save(1, TENSORS, {})
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**manifest, "schema": 99}))
    with pytest.raises(CheckpointError, match="schema 99; this reelrl reads 1"):
        load(folder)


@pytest.mark.parametrize("value", [np.array(["text"]), np.array([object()])])
def test_what_is_no_number_is_refused_and_leaves_nothing(tmp_path: Path, value: NDArray[Any]) -> None:
    with pytest.raises(CheckpointError, match=r"bad .*; give arrays of numbers"):
        Checkpoints(tmp_path).save(1, {"bad": value}, {})
    assert list(tmp_path.iterdir()) == []


def test_state_that_json_cannot_hold_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="a record holds set"):
        Checkpoints(tmp_path).save(1, TENSORS, {"a": {1}})
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_keeps_the_last_good_one(small_disk: Path) -> None:
    checkpoints = Checkpoints(small_disk / "checkpoints")
    checkpoints.save(1, {"small": np.zeros(10)}, {})
    with pytest.raises(CheckpointError, match=r"cannot save checkpoint .*00002-step-2: the disk is full"):
        checkpoints.save(2, {"large": np.zeros(1_000_000)}, {})
    found = checkpoints.latest()
    assert found is not None
    assert found.step == 1
    assert [path.name for path in checkpoints.folder.iterdir()] == ["00001-step-1"]
    checkpoints.save(3, {"small": np.zeros(10)}, {})


def test_a_size_limit_keeps_the_last_good_one(tmp_path: Path) -> None:
    program = (
        "import resource, sys; import numpy as np\n"
        "from pathlib import Path; from reelrl.runs.checkpoints import Checkpoints\n"
        "checkpoints = Checkpoints(Path(sys.argv[1])); checkpoints.save(1, {'w': np.zeros(9)}, {})\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000)); checkpoints.save(2, {'w': np.zeros(9000)}, {})"
    )
    child = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True)
    assert "CheckpointError: cannot save checkpoint" in child.stderr
    assert "the file grew past the size limit" in child.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["00001-step-1"]


def test_leftovers_of_a_killed_writer_are_swept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    whole = checkpoints.save(1, TENSORS, {})
    for name in (".saving-00002-step-9", ".removing-00000-step-0"):
        shutil.copytree(whole, tmp_path / name)
    checkpoints.save(2, TENSORS, {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00001-step-1", "00002-step-2"]


def test_keeping_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="keep is 0"):
        Checkpoints(tmp_path, keep=0)


SAVE_FOR_EVER = """
import sys
from pathlib import Path
import numpy as np
from reelrl.runs.checkpoints import Checkpoints

checkpoints = Checkpoints(Path(sys.argv[1]), keep=2)
last = checkpoints.latest()
step = last.step if last else 0
while True:
    step += 1
    checkpoints.save(step, {"w": np.full(20_000, step)}, {"step": step})
    print(step, flush=True)
"""


@pytest.mark.parametrize("announcements", [1, 2, 3, 5, 8, 4, 7, 6])
def test_after_kill_9_the_latest_is_whole_and_at_least_the_last_announced(
    kill_folder: Path, announcements: int
) -> None:
    """One folder for all cases: each writer continues in what the one before it, killed, left behind."""
    writer = subprocess.Popen([sys.executable, "-c", SAVE_FOR_EVER, kill_folder], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    announced = 0
    with writer:
        for _ in range(announcements):
            announced = int(writer.stdout.readline())
        # The kill falls anywhere in a later save: the writer has not waited for us.
        writer.kill()
        announced = int((writer.stdout.read().split() or [str(announced)])[-1])
    found = Checkpoints(kill_folder).latest()
    assert found is not None
    assert found.step >= announced
    assert found.state == {"step": found.step}
    np.testing.assert_array_equal(found.tensors["w"], np.full(20_000, found.step))


DIE_AT_EVERY_MOMENT = """
import os, signal, sys
from pathlib import Path
import numpy as np
import safetensors.numpy
from reelrl.runs.checkpoints import Checkpoints

moment, survived = 0, False
while not survived:
    moment += 1
    folder = Path(sys.argv[1]) / str(moment)
    Checkpoints(folder, keep=1).save(1, {"w": np.ones(9)}, {})
    child = os.fork()
    if not child:
        left = moment
        def count(event, arguments):
            global left
            if not left:
                return  # the kill itself is audited too
            left -= any(str(folder) in os.fspath(each) for each in arguments if isinstance(each, str | os.PathLike))
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(count)
        Checkpoints(folder, keep=1).save(2, {"w": np.ones(9)}, {})
        os._exit(0)
    survived = os.waitpid(child, 0)[1] == 0
    print(Checkpoints(folder).latest().step, flush=True)
"""


def test_a_save_killed_before_each_of_its_file_operations_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", DIE_AT_EVERY_MOMENT, str(tmp_path)]
    child = subprocess.run(command, capture_output=True, text=True, check=True)
    steps = [int(line) for line in child.stdout.split()]
    assert steps == sorted(steps)
    assert set(steps) == {1, 2}
    assert len(steps) > 15


@pytest.fixture(scope="module")
def kill_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("killed")
