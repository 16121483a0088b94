"""An encode by parts that is stopped, killed, or loses a worker: what is finished stays, nothing else does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reelrl.content.clip import concatenate
from reelrl.content.write.video import write_video
from tests.encode.fixtures import own_cache  # noqa: F401
from tests.encode.makers import scene
from tests.waiting import HANG_S, until

SHOTS = [scene(style, 36, (160, 128)) for style in ("street", "talk", "pan", "street", "talk", "pan")]
COMMAND = [
    *(sys.executable, "-m", "reelrl.cli.main", "encode", "in.y4m", "-o", "out.mkv", "--bitrate", "200"),
    *("--preset", "4", "--workers", "2", "--json"),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file as an encode that nobody disturbs writes it."""
    folder = tmp_path_factory.mktemp("whole")
    write_video(folder / "in.y4m", concatenate(SHOTS))
    subprocess.run(COMMAND, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=HANG_S)
    return (folder / "out.mkv").read_bytes()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_video("in.y4m", concatenate(SHOTS))
    return tmp_path


def start() -> subprocess.Popen[str]:
    """An encode in a group of its own, with its first part finished."""
    program = subprocess.Popen(
        COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    until(lambda: finished_parts() > 0 or program.poll() is not None)
    return program


def finished_parts() -> int:
    return len(list(Path(".out.mkv.parts").glob("[!.]*.json")))


def children(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def coding(process: int) -> bool:
    return b"multiprocessing.spawn" in Path(f"/proc/{process}/cmdline").read_bytes()


def group_is_empty(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_encode_leaves_its_parts_and_goes_on(how: signal.Signals, whole: bytes) -> None:
    program = start()
    program.send_signal(how)
    said = program.communicate(timeout=HANG_S)[1]
    assert program.returncode == (-9 if how == signal.SIGKILL else 130)
    until(lambda: group_is_empty(program.pid))
    assert finished_parts() > 0
    assert not Path("out.mkv").exists()
    if how != signal.SIGKILL:
        assert "go on with --resume" in said
    again = subprocess.run([*COMMAND, "--resume"], check=True, capture_output=True, text=True, timeout=HANG_S)
    assert json.loads(again.stdout)["resumed"] > 0
    assert Path("out.mkv").read_bytes() == whole
    assert sorted(path.name for path in Path().iterdir()) == ["in.y4m", "out.mkv"]


@pytest.mark.long
def test_a_killed_worker_is_started_again(whole: bytes) -> None:
    program = start()
    workers = [child for child in children(program.pid) if coding(child)]
    os.kill(workers[0], signal.SIGKILL)
    assert program.wait(HANG_S) == 0
    program.communicate()
    assert Path("out.mkv").read_bytes() == whole
    assert sorted(path.name for path in Path().iterdir()) == ["in.y4m", "out.mkv"]
