"""The README in another language says the same: headings, commands, links and figures, one for one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ENGLISH, CHINESE = ROOT / "README.md", ROOT / "README.zh.md"
BLOCK = re.compile(r"```\w+\n(.*?)```", re.DOTALL)


def sections(page: Path) -> list[str]:
    """The page by its headings; the line that leads to the other language belongs to one page alone."""
    text = re.sub(r"^\[(English|简体中文)\]\(README[.\w]*\)\n\n", "", page.read_text(), flags=re.MULTILINE)
    return re.split(r"^(?=#)", text, flags=re.MULTILINE)


def commands(section: str) -> list[str]:
    """What is typed: code without its comments, and words in backticks."""
    blocks = [re.sub(r"\s*# .*", "", line) for block in BLOCK.findall(section) for line in block.splitlines()]
    return blocks + re.findall(r"`([^`\n]+)`", BLOCK.sub("", section))


def figures(section: str) -> list[str]:
    return sorted(re.findall(r"[-+]?\d+(?:\.\d+)?", BLOCK.sub("", section)))


def test_both_have_the_same_headings() -> None:
    levels = [[re.match("#*", part)[0] for part in sections(page)] for page in (ENGLISH, CHINESE)]  # type: ignore[index]
    assert levels[0] == levels[1]


@pytest.mark.parametrize("number", range(len(sections(ENGLISH))))
def test_a_section_has_the_same_commands_links_and_figures(number: int) -> None:
    english, chinese = sections(ENGLISH)[number], sections(CHINESE)[number]
    assert sorted(commands(chinese)) == sorted(commands(english))
    assert figures(chinese) == figures(english)
    links = [re.findall(r"\]\(([^)]+)\)", text) for text in (english, chinese)]
    assert links[0] == links[1]
