"""Whatever learned thing ships has a card beside it: what it is, what it was learned from, how it was made."""

from __future__ import annotations

from pathlib import Path

import pytest

import reelrl

ROOM = Path(reelrl.__file__).parent
FOLDERS = sorted({path.parent for path in ROOM.rglob("weights/*") if path.suffix in {".safetensors", ".json"}})
LARGEST = 1_000_000


def test_there_are_weights() -> None:
    assert len(FOLDERS) >= 6


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.relative_to(ROOM).as_posix())
def test_a_folder_of_weights_has_a_card_that_names_each_file(folder: Path) -> None:
    card = (folder / "README.md").read_text(encoding="utf-8")
    files = [path for path in folder.iterdir() if path.suffix not in {".py", ".md"} and path.is_file()]
    assert [path.name for path in files if f"`{path.name}`" not in card] == []
    for part in ("MIT licence", "earned from", "ade by", "docs/results/"):
        assert part in card
    assert all(path.suffix in {".safetensors", ".json"} and path.stat().st_size < LARGEST for path in files)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.relative_to(ROOM).as_posix())
def test_a_card_leads_to_a_page_of_results(folder: Path) -> None:
    words = (folder / "README.md").read_text(encoding="utf-8").replace("\n", " ").split()
    pages = [word.strip(".,") for word in words if word.startswith("docs/results/")]
    assert pages
    assert all((ROOM.parent.parent / page).is_file() for page in pages)
