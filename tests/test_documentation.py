"""The documentation's tier: examples that train, and the Python of all pages but the first ones, run as they stand."""

from __future__ import annotations

import ast
import importlib
from typing import TYPE_CHECKING

import pytest

from reelrl.cli.main import main
from tests.test_examples import EXAMPLES, LAST_QUICK, blocks, run
from tests.test_examples import PAGES as FIRST_PAGES
from tests.test_pages import PAGES, name_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# Pages whose code needs what a test can't quickly have: it is compiled, and what it imports must exist.
NOT_RUN = {
    "docs/explanation/decisions/files-run-no-code.md": "a trained run that names code of others",
    "docs/how-to/control-bitrate.md": "a GPU",
    "docs/how-to/record-matches.md": "recordings of two kinds, one of them of X-Ego's makers",
    "docs/how-to/steer-your-own-encoder.md": "an encoder in another process",
    "docs/how-to/train-a-doom-team.md": "BenchMARL for minutes",
}
CHECKED = [page for page in PAGES if page not in FIRST_PAGES and blocks(page)]


def superblock_run(folder: Path) -> str:
    """A policy in runs/0007 and another clip, as on the page."""
    clip = "generated:street?size=64x64&frames=4"
    short = ("--total-iteration", "1", "--eval-freq", "100", "--set", "learner.hidden=[8]")
    assert main(["train", "superblock", "--file", clip, *short, "--output-dir", str(folder / "runs")]) == 0
    next((folder / "runs").iterdir()).rename(folder / "runs" / "0007-superblock-ppo")
    assert main(["clips", "make", clip, "-o", str(folder / "other.y4m")]) == 0
    return ""


# What a page takes for granted: files that are made before, and lines that come first.
GIVEN: dict[str, Callable[[Path], str]] = {
    "docs/how-to/train-superblock.md": superblock_run,
    "docs/how-to/train-an-autoencoder.md": lambda _: "import numpy as np\nframes = np.zeros((3, 48, 64, 3), np.uint8)",
}


@pytest.mark.docs
@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.name[:2] > LAST_QUICK], ids=lambda path: path.name)
def test_an_example_trains_and_gives_a_verdict(path: Path, tmp_path: Path) -> None:
    assert run(tmp_path, str(path)).strip()


@pytest.mark.docs
@pytest.mark.parametrize("page", [page for page in CHECKED if name_of(page) not in NOT_RUN], ids=name_of)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    give = GIVEN.get(name_of(page))
    given = give(tmp_path) if give else ""
    (tmp_path / "page.py").write_text("\n".join([given, *blocks(page)]), encoding="utf-8")
    run(tmp_path, "page.py")


@pytest.mark.slow
@pytest.mark.parametrize("page", CHECKED, ids=name_of)
def test_what_the_code_of_a_page_imports_exists(page: Path) -> None:
    for code in blocks(page):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("reelrl"):
                home = importlib.import_module(str(node.module))
                missing = [alias.name for alias in node.names if not hasattr(home, alias.name)]
                assert not missing, f"{name_of(page)}: {node.module} has no {missing}"


def test_every_page_that_is_not_run_is_there_and_has_code() -> None:
    assert set(NOT_RUN) | set(GIVEN) <= {name_of(page) for page in CHECKED}
