"""The packages as a stranger gets them: built, installed into an empty environment, used without the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from tests.cli.test_demo import CLIP, FRAMES

pytestmark = pytest.mark.wheel

ROOT = Path(__file__).parent.parent
LARGEST_MB = 650


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the core install alone."""
    folder = tmp_path_factory.mktemp("core") / "env"
    venv.create(folder, with_pip=True)
    pip(str(folder / "bin/python"), "install", str(wheel))
    return folder


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is not the checkout, with nothing that leads to it."""
    monkeypatch.chdir(tmp_path)
    for name in ("PYTHONPATH", "REELRL_DATA"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def pip(python: str, *words: str) -> None:
    quiet = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
    quiet.pop("PYTHONPATH", None)
    done = subprocess.run([python, "-m", "pip", "-q", *words], capture_output=True, text=True, env=quiet)
    assert done.returncode == 0, done.stderr


def reel(environment: Path, *words: str, status: int = 0) -> str:
    done = subprocess.run([environment / "bin/reel", *words], capture_output=True, text=True)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if status == 0 else done.stderr


def test_the_wheel_holds_weights_types_and_licences_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in ("reelrl/py.typed", "scale-free.safetensors", "target.safetensors", "dash.all.min.js", "LICENSE"):
        assert any(name.endswith(wanted) for name in names), wanted
    assert {name.split("/")[0] for name in names} == {
        "reelrl",
        next(n for n in names if "dist-info" in n).split("/")[0],
    }
    assert wheel.stat().st_size < 8e6


def test_the_core_install_is_small(environment: Path) -> None:
    files = [path for path in environment.rglob("*") if path.is_file() and not path.is_symlink()]
    assert sum(path.stat().st_size for path in files) / 1e6 < LARGEST_MB
    code = "import importlib.util as u; print([m for m in ('scipy', 'matplotlib', 'torch') if u.find_spec(m)])"
    said = subprocess.run([environment / "bin/python", "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "[]\n"


def test_each_kind_of_command_works_without_the_checkout(environment: Path, elsewhere: Path) -> None:
    assert reel(environment, "--version").startswith("reel ")
    assert "miss" not in reel(environment, "doctor")
    assert "generated:street" in reel(environment, "clips")
    clip = "generated:street?size=64x64&frames=24"
    reel(environment, "encode", clip, "-o", "street.mkv", "--bitrate", "80")
    assert (elsewhere / "street.mkv").stat().st_size > 500
    reel(environment, "traces", "make", "mobile", "--count", "2", "-o", "links")
    found = json.loads(reel(environment, "evaluate", "abr", "scalefree", "bba", "--traces", "links", "--json"))
    assert found
    reel(environment, "demo", "--only", "encode", "--clip", CLIP, "--frames", str(FRAMES))
    assert (elsewhere / "demo/index.html").stat().st_size > 10_000
    assert "pip install 'reelrl[train]'" in reel(environment, "train", "abr", status=1)


def test_the_source_package_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    builder = tmp_path / "env"
    venv.create(builder, with_pip=True)
    python = str(builder / "bin/python")
    pip(python, "install", "build")
    subprocess.run([python, "-m", "build", "-q", "--sdist", "-o", str(tmp_path), str(ROOT)], check=True)
    (source,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(source) as packed:
        assert not any(".venv" in name for name in packed.getnames())
    pip(python, "wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(source))
    (again,) = tmp_path.glob("*.whl")
    assert zipfile.ZipFile(again).namelist() == zipfile.ZipFile(wheel).namelist()
