from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from reelrl.content.atari import GAMES
from reelrl.content.catalogue import Entry, catalogue, clips_folder, left_out, source_from, split_of
from reelrl.content.clip import Clip
from reelrl.content.generated.clips import STYLES
from reelrl.content.sources import open_clip
from reelrl.content.write.video import write_video
from reelrl.errors import ContentError
from tests.content.makers import encode, noise_frames, smooth_frames

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

THERE = catalogue()


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder that REELRL_DATA points to; returns its clips/."""
    monkeypatch.setenv("REELRL_DATA", str(tmp_path))
    (tmp_path / "clips").mkdir()
    return tmp_path / "clips"


def write_manifest(folder: Path, **changes: object) -> Clip:
    clip = Clip.from_frames(noise_frames(16, 8, 5), fps=25)
    write_video(folder / "one.y4m", clip)
    record = {
        "name": "one",
        "file": "one.y4m",
        "width": 16,
        "height": 8,
        "frames": 5,
        "fps": "25",
        "source": "github cisco/openh264: res/a.264",
        "licence_class": "open",
        "raw_yuv_sha256": clip.content_hash,
    }
    (folder / "MANIFEST.json").write_text(json.dumps({"clips": [record | changes]}))
    return clip


def test_made_clips_are_always_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REELRL_DATA", raising=False)
    names = [entry.clip.name for entry in catalogue()]
    assert names == [*(f"generated:{style}" for style in STYLES), *(f"atari:{game}" for game in GAMES)]


def test_a_data_folder_without_clips_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REELRL_DATA", str(tmp_path))
    assert clips_folder() is None
    assert len(catalogue()) == len(STYLES) + len(GAMES)


def test_a_manifest_describes_its_clips(data: Path) -> None:
    written = write_manifest(data)
    entry = catalogue()[-1]
    assert entry.clip.source == "cisco"
    assert entry.clip.licence_class == "open"
    assert entry.split == "train"
    assert entry.verify() == ""
    assert list(open_clip("one")) == list(written)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"raw_yuv_sha256": "0" * 64}, "the manifest says 000000000000"),
        ({"frames": 6}, "has 5 frames, 6 were expected"),
        ({"width": 32}, "is 16x8, not 32x8"),
        ({"file": "gone.y4m"}, "no such file"),
    ],
)
def test_clips_that_are_not_as_described_fail_verification(
    data: Path, changes: dict[str, object], problem: str
) -> None:
    write_manifest(data, **changes)
    assert problem in catalogue()[-1].verify()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is not JSON"),
        ("[]", 'has no list "clips"'),
        ('{"clips": 3}', 'has no list "clips"'),
        ('{"clips": [{"name": "a"}]}', "clip 0 lacks 'source'"),
        ('{"clips": ["a"]}', "clip 0 is wrong"),
    ],
)
def test_a_damaged_manifest_is_named(data: Path, text: str, problem: str) -> None:
    (data / "MANIFEST.json").write_text(text)
    with pytest.raises(ContentError, match=problem) as caught:
        catalogue()
    assert "MANIFEST.json" in str(caught.value)


@pytest.mark.parametrize("changes", [{"fps": "fast"}, {"fps": "1/0"}, {"frames": None}, {"width": "wide"}])
def test_a_wrong_value_in_a_manifest_is_named(data: Path, changes: dict[str, object]) -> None:
    write_manifest(data, **changes)
    with pytest.raises(ContentError, match="clip 0 is wrong"):
        catalogue()


def test_a_plain_folder_lists_its_videos_and_says_what_it_left_out(data: Path) -> None:
    frames = smooth_frames(32, 16, 4)
    encode(data / "b.mkv", frames)
    write_video(data / "a_32x16_10.yuv", Clip.from_frames(frames, fps=10))
    encode(data / "deep.mkv", frames, pixel_format="yuv420p10le")
    encode(data / "full.mkv", frames, pixel_format="yuv444p")
    (data / "notes.txt").write_text("not a video")
    found = [entry.clip for entry in catalogue()][len(STYLES) + len(GAMES) :]
    assert [(clip.name, clip.depth) for clip in found] == [("a_32x16_10", 8), ("b", 8), ("deep", 10)]
    assert [len(clip) for clip in found] == [4, 4, 4]
    (reason,) = left_out()
    assert "full.mkv has pixel format yuv444p" in reason


def test_every_source_is_on_one_side() -> None:
    sides: dict[str, set[str]] = {}
    for entry in [*catalogue(), *THERE]:
        sides.setdefault(entry.clip.source, set()).add(entry.split)
    assert all(len(side) == 1 for side in sides.values())


def test_both_sides_have_drawn_clips_and_games() -> None:
    count = Counter((entry.clip.source.split(":")[0], entry.split) for entry in catalogue())
    assert min(count[kind, side] for kind in ("generated", "atari") for side in ("train", "test")) >= 2


def test_unknown_sources_fall_on_a_side_by_their_name_alone() -> None:
    sides = Counter(split_of(f"somebody {number}") for number in range(1000))
    assert 180 < sides["test"] < 320
    assert [split_of(f"somebody {number}") for number in range(4)] == ["train", "train", "train", "test"]
    assert source_from("the unknown") == "the unknown"


@pytest.mark.parametrize("entry", THERE, ids=lambda entry: entry.clip.name)
def test_every_listed_clip_is_as_described(entry: Entry) -> None:
    """Real ones, where REELRL_DATA names some, against the hashes in their manifest."""
    assert entry.verify() == ""
