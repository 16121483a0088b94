"""What README.md and docs point to is there: pages, sections, files; and the files that the architecture names."""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
from pathlib import Path

import pytest

from reelrl.cli.main import COMMANDS, _names_a_run, with_dashes

ROOT = Path(__file__).parent.parent
WRITTEN_BY_MAKE_DOCS = ROOT / "docs" / "reference"
PAGES = [
    *ROOT.glob("*.md"),
    *(
        page
        for page in sorted((ROOT / "docs").rglob("*.md"))
        if not {WRITTEN_BY_MAKE_DOCS, ROOT / "docs" / "_build"} & set(page.parents)
    ),
]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def without_code(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Sections of a page as links name them, on GitHub and in the built pages."""
    headings = re.findall(r"^#+ +(.*)", without_code(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_pages_sections_and_files(page: Path) -> None:
    for link in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", without_code(page)):
        path, _, section = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if WRITTEN_BY_MAKE_DOCS in target.parents:
            continue
        assert target.exists(), f"{name_of(page)} links to {link}: no such file"
        assert not section or section in anchors(target), f"{name_of(page)} links to {link}: no such section"


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, to_read = set(), [ROOT / "README.md"]
    while to_read:
        page = to_read.pop()
        if page in reached or page.suffix != ".md" or WRITTEN_BY_MAKE_DOCS in page.parents:
            continue
        reached.add(page)
        to_read += [
            (page.parent / link).resolve() for link in re.findall(r"\]\((?!http)([^)#\s]+)", without_code(page))
        ]
    lost = [name_of(page) for page in PAGES if page not in reached and "docs/results/" not in name_of(page)]
    assert not lost, f"no link leads to {lost}"


def shell_lines(page: Path) -> list[str]:
    """`reel` and `make` in a page's shell blocks: lines that go on are joined, loops and chains are taken apart."""
    text = page.read_text(encoding="utf-8")
    found = "".join(re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)).replace("\\\n", " ")
    parts = [part for line in found.splitlines() for part in re.split(r"&& |; |\bdo ", line)]
    return [part.strip() for part in parts if part.strip().startswith(("reel ", "make "))]


def parse(words: list[str]) -> None:
    """Ask the command's own parser, without running it; what it refuses ends in SystemExit."""
    if _names_a_run(words):
        words = ["evaluate", "abr", *words[1:]]  # which one it is stands in the run; all take runs and -o
    name = " ".join(words[:2]) if " ".join(words[:2]) in COMMANDS else words[0]
    parser = argparse.ArgumentParser(prog=f"reel {name}", allow_abbrev=False)
    importlib.import_module(COMMANDS[name][0]).add_arguments(parser)
    parser.add_argument("--trust", action="store_true")
    parser.parse_args(with_dashes(words[len(name.split()) :]))


@pytest.mark.parametrize("page", [page for page in PAGES if shell_lines(page)], ids=name_of)
def test_commands_have_the_options_that_pages_give_them(page: Path) -> None:
    for line in shell_lines(page):
        words = shlex.split(re.sub(r"\$\w+", "1", line), comments=True)  # the seed of a loop is a number
        if words[:1] == ["reel"] and len(words) > 1 and not words[1].startswith("-"):
            try:
                parse(words[1:])
            except (KeyError, SystemExit):
                pytest.fail(f"{name_of(page)}: no such command or option: {line}")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_make_targets_and_programs_that_pages_name_exist(page: Path) -> None:
    rules = (ROOT / "Makefile").read_text(encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    words = [shlex.split(line, comments=True) for line in shell_lines(page)]
    targets = {word[1] for word in words if word[:1] == ["make"] and len(word) > 1 and "=" not in word[1]}
    for target in targets | set(re.findall(r"`make ([a-z-]+)`", text)):
        assert target.startswith("test-") or re.search(f"^{target}:", rules, re.MULTILINE), f"make {target}"
    if page.name != "CHANGELOG.md":  # which tells of programs that were
        for program in re.findall(r"python ((?:benchmarks|examples)/\w+\.py)", text):
            assert (ROOT / program).exists(), f"{name_of(page)} names {program}"


ARCHITECTURE = ROOT / "docs" / "explanation" / "architecture.md"


def test_the_ways_of_the_architecture_are_as_long_as_it_says() -> None:
    ways = re.split(r"^\*\*[a-f]\. ", ARCHITECTURE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert len(ways) == 6
    for way in ways:
        said = re.search(r": (\d+) files", way)
        assert said
        assert int(said[1]) == len(set(re.findall(r"[\w./]+\.py", way))), way.splitlines()[0]


def test_files_that_the_architecture_names_exist() -> None:
    page = ARCHITECTURE
    named = re.findall(r"[\w./]+\.py\b|`[\w/]+/`", page.read_text(encoding="utf-8"))
    assert named
    for name in named:
        path = name.strip("`")
        if "/" in path.rstrip("/"):  # a bare `train/` belongs to the room of its row
            assert (ROOT / path).exists() or (ROOT / "src" / "reelrl" / path).exists(), f"{page.name} names {path}"
