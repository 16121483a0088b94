"""The examples and the code of README.md and docs run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.waiting import HANG_S

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))
# The others train, for half a minute each: tests/test_documentation.py runs them.
LAST_QUICK = "04"
MOST_LINES = 60
PAGES = [ROOT / "README.md", ROOT / "docs" / "start.md", ROOT / "docs" / "how-to" / "steer-an-encoder.md"]


def blocks(page: Path) -> list[str]:
    """Python code between fences, in the order it is read."""
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def run(folder: Path, *command: str) -> str:
    child = subprocess.run(
        [sys.executable, "-W", "error", *command],
        cwd=folder,
        env=os.environ | {"REELRL_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
    assert child.returncode == 0, child.stderr
    return child.stdout


def test_there_are_examples() -> None:
    assert [path.name[:2] for path in EXAMPLES] == [f"{number:02}" for number in range(1, len(EXAMPLES) + 1)]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], tuple[Path, str]]:
    """The folder that an example ran in, and what it printed; each runs once."""

    @cache
    def run_once(path: Path) -> tuple[Path, str]:
        folder = tmp_path_factory.mktemp(path.stem)
        return folder, run(folder, str(path))

    return run_once


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.name[:2] <= LAST_QUICK], ids=lambda path: path.name)
def test_an_example_runs_and_says_something(path: Path, said: Callable[[Path], tuple[Path, str]]) -> None:
    assert said(path)[1].strip()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    code = blocks(page)
    assert code, f"{page.name} shows no code"
    (tmp_path / "page.py").write_text("\n".join(code), encoding="utf-8")
    run(tmp_path, "page.py")


def test_the_map_of_the_first_example_moves_quality(said: Callable[[Path], tuple[Path, str]]) -> None:
    folder, printed = said(EXAMPLES[0])
    found = re.findall(r"left +([\d.]+) +right +([\d.]+)", printed)
    (plain_left, plain_right), (left, right) = [tuple(map(float, pair)) for pair in found]
    assert left < plain_left
    assert right > plain_right
    assert (folder / "half.mp4").stat().st_size > 1000


def test_the_last_example_outlives_its_encoder(said: Callable[[Path], tuple[Path, str]]) -> None:
    assert "SIGKILL" in said(EXAMPLES[2])[1].splitlines()[-1]
