"""The documentation's tier: examples that train, and the Python of all pages but the first ones, run as they stand."""

from __future__ import annotations

import ast
import importlib
from itertools import zip_longest
from typing import TYPE_CHECKING

import pytest

from tests.page_setups import GIVEN
from tests.test_examples import EXAMPLES, LAST_QUICK, blocks, run
from tests.test_examples import PAGES as FIRST_PAGES
from tests.test_pages import PAGES, name_of

if TYPE_CHECKING:
    from pathlib import Path

CHECKED = [page for page in PAGES if page not in FIRST_PAGES and blocks(page)]


@pytest.mark.docs
@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.name[:2] > LAST_QUICK], ids=lambda path: path.name)
def test_an_example_trains_and_gives_a_verdict(path: Path, tmp_path: Path) -> None:
    assert run(tmp_path, str(path)).strip()


@pytest.mark.docs
@pytest.mark.parametrize("page", CHECKED, ids=name_of)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    """Blocks in order; before each come the lines that the page takes for granted there, and the last after all."""
    give = GIVEN.get(name_of(page))
    given = give(tmp_path) if give else []
    lines = [line for pair in zip_longest(given, blocks(page), fillvalue="") for line in pair]
    (tmp_path / "page.py").write_text("\n".join(lines), encoding="utf-8")
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


def test_every_page_that_something_is_made_for_has_code() -> None:
    assert set(GIVEN) <= {name_of(page) for page in CHECKED}
