"""The page on licences names every package that an install brings, with what the package says of itself."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/explanation/licences.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| \**([a-z0-9-]+)\** \| ([^|]+?) \|", PAGE, re.MULTILINE))
ROWS.pop("package")  # the tables' heads
# Tools for those who work on reelrl; nothing of them reaches a user.
NOT_FOR_USERS = {"dev", "docs"}
# What no extra can name (pyproject.toml says why).
BY_HAND = {"benchmarl"}
# What the environment of the tests goes without.
NOT_INSTALLED = {"rapidocr-onnxruntime"}


def required() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [needs for extra, needs in project["optional-dependencies"].items() if extra not in NOT_FOR_USERS]
    return {re.split(r"[^A-Za-z0-9_.-]", need)[0] for needs in [project["dependencies"], *extras] for need in needs}


def words(text: str) -> set[str]:
    """MIT, BSD, Apache, GPL, MPL: whichever families a text names."""
    return set(re.findall(r"\b(MIT|BSD|Apache|GPL|MPL)\b", text))


def own_words(package: str) -> set[str]:
    found = importlib.metadata.metadata(package)
    classifiers = [each for each in found.get_all("Classifier") or [] if each.startswith("License")]
    # Some put the whole text there; its first line has the name.
    named = [str(found[field]).split("\n")[0] for field in ("License", "License-Expression") if field in found]
    return words(" ".join([*named, *classifiers]))


def test_every_package_of_an_install_is_named_and_no_other() -> None:
    assert set(ROWS) == required() | BY_HAND


@pytest.mark.parametrize("package", sorted(set(ROWS) - NOT_INSTALLED))
def test_the_page_says_what_the_package_says_of_itself(package: str) -> None:
    own = own_words(package)
    # Where metadata name nothing, the licence file was read by hand; torchrl's and tensordict's "BSD" is an MIT text.
    if own and package not in {"torchrl", "tensordict"}:
        assert words(ROWS[package]) & own
