"""No command writes to the file that it reads, whatever the file is called."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from reelrl.cli import reel_encoder
from reelrl.cli.main import main
from reelrl.content import open_clip
from reelrl.content.clip import Clip, concatenate
from reelrl.content.write.video import write_video
from reelrl.encode import EncoderSettings, encode_clip
from reelrl.encode.script.run import Script
from reelrl.errors import ContentError
from reelrl.storage.files import check_output, refuse_overwriting
from reelrl.stream.data.ladder_encoding import LadderSettings, encode_ladder
from reelrl.stream.data.packaging import segment_name
from tests.encode.fixtures import own_cache  # noqa: F401
from tests.encode.makers import scene

if TYPE_CHECKING:
    from collections.abc import Callable

QUICK = EncoderSettings(preset=12)
ENCODE = ["encode", "film.mp4", "--bitrate", "40", "--preset", "12"]
LINKS: dict[str, Callable[[str, str], None]] = {"symbolic": os.symlink, "hard": os.link}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    clip = scene("street", 4, (64, 64))
    write_video("film.y4m", clip)
    encode_clip(clip, QUICK).save("film.mp4")
    Path("trace.json").write_text('{"kbps": [100, 200, 300], "slot_s": 1.0}')
    Path("trace.txt").write_text("0.0 1.0\n1.0 2.0\n2.0 3.0\n")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "source"),
    [
        ([*ENCODE, "-o", "film.mp4"], "film.mp4"),
        ([*ENCODE, "-o", "./../{here}/film.mp4"], "film.mp4"),
        ([*ENCODE, "-o", "new.mkv", "--export-qpfile", "film.mp4"], "film.mp4"),
        ([*ENCODE, "-o", "new.mkv", "--export-zones", "film.mp4"], "film.mp4"),
        ([*ENCODE, "-o", "new.mkv", "--export-scenes", "film.mp4"], "film.mp4"),
        (["clips", "make", "film.y4m", "-o", "film.y4m"], "film.y4m"),
        (["traces", "convert", "trace.txt", "-o", "trace.txt"], "trace.txt"),
        (["traces", "trace.txt", "--figure", "trace.txt"], "trace.txt"),
        (["fit", "superblock", "--clips", "film.y4m", "-o", "film.y4m"], "film.y4m"),
        (["fit", "minigop", "--clips", "film.y4m", "-o", "film.y4m"], "film.y4m"),
        (["search", "superblock", "film.y4m", "--out", "film.y4m"], "film.y4m"),
    ],
)
def test_a_command_refuses_its_input_as_output(
    command: list[str], source: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = Path(source).read_bytes()
    assert main([word.replace("{here}", folder.name) for word in command]) == 1
    assert f"it is the same file as {source}, which is read; choose another name" in capsys.readouterr().err
    assert Path(source).read_bytes() == before
    assert not Path("new.mkv").exists()


@pytest.mark.parametrize("place", ["film.y4m/new", "made"])
@pytest.mark.parametrize(
    ("command", "end"),
    [
        (["fit", "superblock", "--clips", "film.mp4", "-o"], ""),
        (["fit", "minigop", "--clips", "film.mp4", "-o"], ""),
        (["fit", "live", "--clips", "film.mp4", "-o"], ".safetensors"),
        (["fit", "frameqp", "--clips", "film.mp4", "-o"], ".json"),
        (["fit", "frameqp-sac", "--clips", "film.mp4", "-o"], ".safetensors"),
        (["search", "superblock", "film.mp4", "--out"], ""),
        (["search", "frameqp", "--clips", "film.mp4", "--out"], ""),
    ],
)
def test_a_result_that_cannot_be_written_is_refused_before_the_work(
    command: list[str], end: str, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(f"made{end}").mkdir()
    cache = Path(os.environ["REELRL_CACHE"])
    before = set(cache.rglob("*"))
    assert main([*command, place + end]) == 1
    assert f"cannot write{'' if place == 'made' else ' to'} {'film.y4m' if place != 'made' else place + end}" in (
        capsys.readouterr().err
    )
    assert set(cache.rglob("*")) == before, "something was encoded"


def test_the_folder_of_a_result_is_made(folder: Path) -> None:
    check_output("new/deep/map.yaml", "film.y4m")
    assert (folder / "new" / "deep").is_dir()
    check_output("/dev/null", "film.y4m")


@pytest.mark.parametrize("flags", [["--o"], ["--csv"], ["--stat-out"], ["--o", "new.ivf", "--csv"]])
def test_the_reference_encoder_refuses_its_input_as_output(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = Path("film.y4m").read_bytes()
    assert reel_encoder.main(["--input", "film.y4m", "--crf", "40", *flags, "film.y4m"]) == 1
    assert "it is the same file as film.y4m, which is read" in capsys.readouterr().err
    assert Path("film.y4m").read_bytes() == before
    assert not Path("new.ivf").exists()


@pytest.mark.parametrize("link", LINKS)
def test_links_are_seen_through(link: str, capsys: pytest.CaptureFixture[str]) -> None:
    LINKS[link]("film.mp4", "other.mp4")
    before = Path("film.mp4").read_bytes()
    assert main([*ENCODE, "-o", "other.mp4"]) == 1
    assert "cannot write other.mp4: it is the same file as film.mp4" in capsys.readouterr().err
    assert Path("film.mp4").read_bytes() == Path("other.mp4").read_bytes() == before


def test_python_is_held_to_it_too() -> None:
    clip = open_clip("film.y4m")
    for part in (clip, clip.window(1, 2), clip.load(), concatenate([scene("street", 4, (64, 64)), clip])):
        with pytest.raises(ContentError, match=r"same file as film\.y4m"):
            write_video("film.y4m", part)
    with pytest.raises(ContentError, match=r"same file as film\.mp4"):
        encode_clip(open_clip("film.mp4"), QUICK).save("film.mp4")
    with pytest.raises(ContentError, match=r"same file as film\.mp4"):
        Script().run(input="film.mp4", output="film.mp4", qp=40)


def test_a_segment_of_a_ladder_is_not_overwritten_by_its_own_ladder(tmp_path: Path) -> None:
    clip = scene("street", 4, (64, 64))
    segment = tmp_path / segment_name(0, 0)
    encode_clip(clip, QUICK).save(tmp_path / "film.mp4")
    (tmp_path / "film.mp4").rename(segment)
    before = segment.read_bytes()
    with pytest.raises(ContentError, match="which is read; choose another name"):
        encode_ladder(Clip.open(segment), tmp_path, LadderSettings(qps=(50, 30), segment_s=0.1, preset=12))
    assert segment.read_bytes() == before


def test_names_that_are_no_files_are_no_sources() -> None:
    refuse_overwriting("new.mkv", "film.mp4")
    refuse_overwriting("film.mp4", "generated:street", "nul\0", "missing.y4m")
    refuse_overwriting(None, "film.mp4")
