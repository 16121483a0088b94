"""A command whose optional package is not installed says in one line what to install."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from typing import TYPE_CHECKING

import pytest

from reelrl.errors import EXTRAS, missing_extra

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

# Says of one package what Python says of a package that is not installed.
PROGRAM = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == sys.argv[1]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Without())
from reelrl.cli.main import main
sys.exit(main(sys.argv[2:]))
"""

CASES = [
    ("torch", "train abr"),
    ("torch", "train atari"),
    ("torch", "train autoencoder --source generated:cuts"),
    ("torch", "train doom"),
    ("torch", "train frame-reader matches"),
    ("torch", "train location matches"),
    ("torch", "train minigop --clip generated:cuts"),
    ("torch", "train superblock --file generated:cuts"),
    ("torch", "evaluate abr ppo"),
    ("torch", "compare autoencoder"),
    ("starlette", "play site"),
    ("stable_baselines3", "train superblock --file generated:cuts"),
    ("torchrl", "train doom"),
    ("benchmarl", "train doom"),
    ("vizdoom", "collect doom --matches 1 -o out"),
    ("ray", "fit superblock --ray auto --clips generated:street --frames 2 -o x.yaml"),
    ("ale_py", "encode atari:Pong?frames=2 -o x.mkv --bitrate 80"),
]


def run_without(package: str, words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, package, *words.split()]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False, timeout=300)


@pytest.mark.parametrize(("package", "words"), CASES)
def test_a_missing_package_is_one_line_with_its_command(package: str, words: str, tmp_path: Path) -> None:
    done = run_without(package, words, tmp_path)
    assert done.returncode == 1
    pip, extra = EXTRAS.get(package, (package, ""))
    wanted = f"pip install 'reelrl[{extra}]'" if extra else f"pip install --no-deps {package}=="
    said = [line for line in done.stderr.splitlines() if line.startswith("error  ")]
    assert len(said) == 1, done.stderr
    assert f"{pip} is not installed; run: {wanted}" in said[0]
    assert "Traceback" not in done.stderr


def test_every_extra_exists_and_holds_its_package() -> None:
    required = metadata.requires("reelrl") or []
    for pip, extras in EXTRAS.values():
        named = [each for each in required if each.startswith(pip)]
        assert named, pip
        assert any(f'extra == "{extra}"' in each.replace("'", '"') for each in named for extra in extras.split(","))


def test_a_module_that_is_nobodys_extra_keeps_its_traceback() -> None:
    assert missing_extra(ModuleNotFoundError("x", name="no_such_package")) is None
    assert missing_extra(ModuleNotFoundError("x")) is None
    found = missing_extra(ModuleNotFoundError("x", name="torch.nn"))
    assert found is not None
    assert "reelrl[train]" in str(found)
