"""A manifest that says what it cannot: refused with the entry and its value, never used."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from reelrl.act.recording.reader import MatchData
from reelrl.errors import ContentError
from tests.act.location.written_matches import write_matches

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_matches(tmp_path_factory.mktemp("matches"), 1, rows=4, players=1)


FIRST_FILE = "matches/four-rooms-0000/labels.npz"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("matches", 0, "files", FIRST_FILE, "sha256"), ["a"]),
        (("matches", 0, "files", FIRST_FILE, "sha256"), "\ud800"),
        (("matches", 0, "files", FIRST_FILE, "bytes"), "12"),
        (("matches", 0, "files", FIRST_FILE), None),
        (("matches", 0, "files"), ["labels.npz"]),
        (("matches", 0, "frames"), "four"),
        (("matches", 0, "id"), 7),
        (("matches", 0, "split"), "holiday"),
        (("matches", 0, "map"), []),
        (("maps", "four-rooms", "scenario"), {}),
        (("maps", "four-rooms"), []),
    ],
)
def test_an_entry_of_another_type_is_refused(folder: Path, tmp_path: Path, path: tuple[Any, ...], value: Any) -> None:
    document = json.loads((folder / "manifest.json").read_text())
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    assert path[-1] in holder or isinstance(path[-1], int)
    holder[path[-1]] = value
    (tmp_path / "manifest.json").write_text(json.dumps(document))
    with pytest.raises(ContentError, match="is not as reelrl writes it"):
        MatchData.open(tmp_path)


@pytest.mark.parametrize(
    ("path", "file"), [(("matches", 0), FIRST_FILE), (("maps", "four-rooms"), "maps/four-rooms.json")]
)
def test_a_match_without_labels_or_a_map_without_its_plan_is_refused(
    folder: Path, tmp_path: Path, path: tuple[Any, ...], file: str
) -> None:
    document = json.loads((folder / "manifest.json").read_text())
    del document[path[0]][path[1]]["files"][file]
    (tmp_path / "manifest.json").write_text(json.dumps(document))
    with pytest.raises(ContentError, match=f"does not list '{file}'"):
        MatchData.open(tmp_path)
