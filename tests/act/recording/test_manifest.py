"""A manifest that says what it cannot: refused with the entry and its value, never used."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from reelrl.act.location.dataset import matches_of
from reelrl.act.recording.reader import MatchData
from reelrl.cli.main import main
from reelrl.errors import ContentError
from tests.act.location.written_matches import write_matches

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.act.recording.manifest import Split


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


def test_a_map_without_its_plan_is_refused(folder: Path, tmp_path: Path) -> None:
    document = json.loads((folder / "manifest.json").read_text())
    del document["maps"]["four-rooms"]["files"]["maps/four-rooms.json"]
    (tmp_path / "manifest.json").write_text(json.dumps(document))
    with pytest.raises(ContentError, match=r"does not list 'maps/four-rooms\.json'"):
        MatchData.open(tmp_path)


@pytest.mark.parametrize("lost", ["in the manifest", "on disk"])
def test_a_match_without_labels_says_so_and_knows_nobody(folder: Path, tmp_path: Path, lost: str) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    if lost == "on disk":
        (tmp_path / FIRST_FILE).unlink()
    else:
        document = json.loads((tmp_path / "manifest.json").read_text())
        del document["matches"][0]["files"][FIRST_FILE]
        (tmp_path / "manifest.json").write_text(json.dumps(document))
    data = MatchData.open(tmp_path)
    assert [info.labelled for info in data.matches] == [False]
    labels = data.match("four-rooms-0000").labels
    assert labels.alive.shape == (4, 1)
    assert labels.alive.all()
    assert np.isnan(labels.position).all()
    assert data.match("four-rooms-0000").frames(0, [3]).shape[0] == 1
    with pytest.raises(ContentError, match=r"1 of 1 matches of split 'test'.* no labels.*four-rooms-0000"):
        matches_of(_with_split(data, "test"), "test", "four-rooms")


def _with_split(data: MatchData, split: Split) -> MatchData:
    data.matches = tuple(replace(info, split=split) for info in data.matches)
    return data


def test_a_folder_of_an_earlier_schema_is_converted(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "manifest.json"
    former = path.read_text().replace('"schema": 2', '"schema": 1')
    path.write_text(former)
    with pytest.raises(ContentError, match=r"schema 1, .* reel collect doom --convert"):
        MatchData.open(tmp_path)
    assert main(["collect", "doom", "--convert", str(tmp_path)]) == 0
    assert len(MatchData.open(tmp_path).matches) == 1
    assert (tmp_path / "manifest.schema-1.json").read_text() == former
    assert main(["collect", "doom", "--convert", str(tmp_path)]) == 0  # nothing to do
    assert main(["collect", "doom", "--check", str(tmp_path)]) == 0


@pytest.mark.parametrize("text", ['{"schema": 1}', '{"schema": 3}', "[]", "{", None])
def test_what_cannot_be_converted_stays_as_it_was(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "manifest.json").write_text(text)
    assert main(["collect", "doom", "--convert", str(tmp_path)]) == 1
    if text is not None:
        assert (tmp_path / "manifest.json").read_text() == text
