from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from reelrl.cli.main import main
from reelrl.content.catalogue import catalogue
from reelrl.content.clip import Clip
from reelrl.content.sources import open_clip
from reelrl.content.write.video import write_video
from tests.content.makers import noise_frames

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with one clip of ours and its manifest."""
    monkeypatch.setenv("REELRL_DATA", str(tmp_path))
    clips = tmp_path / "clips"
    clips.mkdir()
    clip = Clip.from_frames(noise_frames(16, 16, 3), fps=25)
    write_video(clips / "one.y4m", clip)
    record = {"name": "one", "file": "one.y4m", "width": 16, "height": 16, "frames": 3, "fps": "25", "source": "me"}
    manifest = {"clips": [record | {"raw_yuv_sha256": clip.content_hash}]}
    (clips / "MANIFEST.json").write_text(json.dumps(manifest))
    return clips


def test_the_table_is_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clips"]) == 0
    header, *rows, last = capsys.readouterr().out.splitlines()
    assert header.split() == ["name", "size", "frames", "fps", "split", "source", "licence"]
    assert len(rows) == len(catalogue())
    for column in ("size", "split", "licence"):
        place = header.index(column)
        assert all(row[place - 1] == " " and row[place] != " " for row in rows)
    assert last.startswith("next   reel clips make generated:street -o")


def test_json_lists_the_same_clips(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clips", "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert [record["name"] for record in records] == [entry.clip.name for entry in catalogue()]
    assert records[-1] == {
        "name": "one",
        "width": 16,
        "height": 16,
        "frames": 3,
        "fps": "25",
        "split": "train",
        "source": "me",
        "licence": "unstated",
    }


def test_one_side_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clips", "--split", "test", "--json"]) == 0
    assert {record["split"] for record in json.loads(capsys.readouterr().out)} == {"test"}


def test_verify_finds_a_clip_that_changed(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reelrl.content.catalogue.STYLES", ())
    monkeypatch.setattr("reelrl.content.catalogue.GAMES", {})
    assert main(["clips", "--verify", "--json"]) == 0
    (good,) = json.loads(capsys.readouterr().out)
    assert good["ok"] is True
    assert len(good["hash"]) == 64
    write_video(folder / "one.y4m", Clip.from_frames(noise_frames(16, 16, 3, seed=9), fps=25))
    assert main(["clips", "--verify"]) == 1
    assert "WRONG: its frames hash to" in capsys.readouterr().out


def test_an_empty_catalogue_is_no_crash(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr("reelrl.content.catalogue.STYLES", ())
    monkeypatch.setattr("reelrl.content.catalogue.GAMES", {})
    (folder / "MANIFEST.json").write_text('{"clips": []}')
    assert main(["clips"]) == 0


def test_make_writes_a_clip_that_opens_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "made.y4m"
    recipe = "generated:pan?size=64x48&frames=4"
    assert main(["clips", "make", recipe, "-o", str(out)]) == 0
    assert open_clip(out).content_hash == open_clip(recipe).content_hash
    assert capsys.readouterr().out.startswith(f"wrote  {out}")


@pytest.mark.parametrize(
    ("arguments", "status", "problem"),
    [
        (["make", "nothing", "-o", "a.y4m"], 1, "no clip 'nothing'"),
        (["make", "one", "-o", "a.gif"], 1, "unknown kind of file"),
        (["make", "one"], 2, "-o"),
        (["--split", "all"], 2, "invalid choice"),
    ],
)
def test_mistakes_are_explained_without_a_traceback(
    arguments: list[str], status: int, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["clips", *arguments]) == status
    assert problem in capsys.readouterr().err


def test_a_damaged_manifest_is_explained(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "MANIFEST.json").write_text("{")
    assert main(["clips"]) == 1
    assert "is not JSON" in capsys.readouterr().err
