"""What README.md and docs point to is there: pages, sections, files; and the files that the architecture names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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


def test_files_that_the_architecture_names_exist() -> None:
    page = ROOT / "docs" / "explanation" / "architecture.md"
    named = re.findall(r"[\w./]+\.py\b|`[\w/]+/`", page.read_text(encoding="utf-8"))
    assert named
    for name in named:
        path = name.strip("`")
        if "/" in path.rstrip("/"):  # a bare `train/` belongs to the room of its row
            assert (ROOT / path).exists() or (ROOT / "src" / "reelrl" / path).exists(), f"{page.name} names {path}"
