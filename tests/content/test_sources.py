"""Every kind of clip keeps the same promises."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

from reelrl.content.atari import GAMES
from reelrl.content.clip import Clip
from reelrl.content.generated.clips import STYLES
from reelrl.content.sources import open_clip
from reelrl.content.write.video import write_bitstream, write_video
from reelrl.errors import ConfigError, ContentError
from tests.content.makers import encode, noise_frames, smooth_frames

if TYPE_CHECKING:
    from pathlib import Path

RECIPES = [f"generated:{style}?size=64x48&frames=12" for style in STYLES]
RECIPES += ["atari:Pong?frames=5&scale=2&seed=9"]
PLAYED = [
    pytest.param(f"atari:{game}?frames=12&fps=30", marks=pytest.mark.long if place else pytest.mark.slow)
    for place, game in enumerate(GAMES)
]
FILES = ["y4m", "yuv", "mkv", "ivf"]


@pytest.fixture(scope="module", params=[*RECIPES, *PLAYED, *FILES, "memory", "window"])
def clip(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, av1_packets: list[bytes]) -> Clip:
    if ":" in request.param:
        return open_clip(request.param)
    path: Path = tmp_path_factory.mktemp("clips") / f"clip_64x48.{request.param}"
    frames = smooth_frames(64, 48, 12)
    if request.param == "ivf":
        write_bitstream(path, av1_packets, 64, 48, 30)
    elif request.param == "mkv":
        encode(path, frames)
    elif request.param in FILES:
        write_video(path, Clip.from_frames(frames, fps=30))
    else:
        whole = Clip.from_frames(frames, fps=30)
        return whole if request.param == "memory" else whole.window(3, 7)
    return open_clip(path)


def test_it_reads_the_same_twice(clip: Clip) -> None:
    assert list(clip) == list(clip)


def test_its_description_is_true(clip: Clip) -> None:
    frames = list(clip)
    assert len(frames) == clip.frame_count == len(clip)
    assert {(frame.width, frame.height) for frame in frames} == {(clip.width, clip.height)}
    assert clip.width % 2 == clip.height % 2 == 0
    assert clip.fps > 0
    assert clip.source


@pytest.mark.slow
def test_it_can_start_anywhere(clip: Clip) -> None:
    middle = clip.frame_count // 2
    assert list(clip.frames(middle)) == list(clip)[middle:]
    assert list(clip.frames(clip.frame_count)) == []


def test_two_passes_do_not_disturb_each_other(clip: Clip) -> None:
    for one, other in zip(clip, clip, strict=True):
        assert one == other


def test_it_travels_to_another_process(clip: Clip) -> None:
    twin = pickle.loads(pickle.dumps(clip))
    assert twin == clip
    assert twin.content_hash == clip.content_hash


def test_its_frames_differ_from_each_other(clip: Clip) -> None:
    assert len({frame.data.tobytes() for frame in clip}) > 1


@pytest.mark.slow
@pytest.mark.parametrize("name", [*RECIPES, *PLAYED])
def test_a_name_opens_the_clip_again(name: str) -> None:
    clip = open_clip(name)
    again = open_clip(clip.name)
    assert again == clip
    assert again.content_hash == clip.content_hash


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("generated:street?frame=3", "unknown option 'frame'; did you mean 'frames'"),
        ("generated:street?size=big", "size is 'big'; write it like 352x288"),
        ("generated:street?fps=1/0", "fps is '1/0'; write it like 30"),
        ("generated:street?frames=-2", "frames is '-2'; it must be a whole number"),
        ("generated:?frames=2", "unknown style ''"),
        ("atari:Brekout", "unknown Atari game 'Brekout'; did you mean 'Breakout'"),
        ("atari:Breakout?fps=25", "choose 60, 30"),
        ("atari:Breakout?scale=0", "choose 1 to 16"),
        ("atari:Breakout?size=64x48", "unknown option 'size'"),
    ],
)
def test_bad_recipes_are_refused(name: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        open_clip(name)


def test_a_clip_that_is_nowhere_names_near_ones() -> None:
    with pytest.raises(ContentError, match=r"neither a file nor in the catalogue; did you mean .*generated:street"):
        open_clip("generated-street")


def test_a_file_can_be_given_size_and_rate(tmp_path: Path) -> None:
    frames = noise_frames(8, 6, 2)
    write_video(tmp_path / "raw.yuv", Clip.from_frames(frames, fps=30))
    clip = open_clip(tmp_path / "raw.yuv", size=(8, 6), fps=15)
    assert list(clip) == frames
    assert clip.fps == 15
