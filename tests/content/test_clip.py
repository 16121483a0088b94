from __future__ import annotations

import hashlib
import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reelrl.content.clip import Clip, concatenate, superblock_grid
from reelrl.content.frame import Frame
from reelrl.errors import ConfigError, ContentError
from tests.content.makers import clips, noise_frames


@given(clip=clips(), data=st.data())
def test_a_window_is_a_slice(clip: Clip, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, clip.frame_count - 1))
    count = data.draw(st.integers(1, clip.frame_count - start))
    window = clip.window(start, count)
    assert list(window) == list(clip)[start : start + count]
    assert len(window) == count


@given(clip=clips(), data=st.data())
def test_a_window_of_a_window_is_a_window(clip: Clip, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, clip.frame_count - 1))
    outer = clip.window(start, clip.frame_count - start)
    inner = data.draw(st.integers(0, outer.frame_count - 1))
    assert list(outer.window(inner, 1)) == list(clip.window(start + inner, 1))


@given(clip=clips(), data=st.data())
def test_concatenating_the_parts_gives_the_whole(clip: Clip, data: st.DataObject) -> None:
    middle = data.draw(st.integers(1, clip.frame_count))
    parts = [clip.window(0, middle)]
    if middle < clip.frame_count:
        parts.append(clip.window(middle, clip.frame_count - middle))
    whole = concatenate(parts)
    assert list(whole) == list(clip)
    assert whole.content_hash == clip.content_hash
    start = data.draw(st.integers(0, clip.frame_count))
    assert list(whole.frames(start)) == list(clip)[start:]


@given(clip=clips())
def test_loading_pickling_and_rereading_change_nothing(clip: Clip) -> None:
    assert list(clip.load()) == list(clip) == list(clip)
    assert list(pickle.loads(pickle.dumps(clip))) == list(clip)


@given(clip=clips())
def test_the_hash_is_that_of_the_planes(clip: Clip) -> None:
    planes = b"".join(plane.tobytes() for frame in clip for plane in frame.planes)
    assert clip.content_hash == hashlib.sha256(planes).hexdigest()


@given(width=st.integers(1, 5000), height=st.integers(1, 5000), size=st.sampled_from([16, 64, 128]))
def test_the_grid_covers_the_picture_and_no_more(width: int, height: int, size: int) -> None:
    rows, columns = superblock_grid(width, height, size)
    assert (rows - 1) * size < height <= rows * size
    assert (columns - 1) * size < width <= columns * size


def test_cif_has_thirty_superblocks() -> None:
    clip = Clip.from_frames([Frame.empty(352, 288)], fps=30)
    assert clip.grid == (5, 6)
    assert clip.superblock_count == 30


def test_sources_join_when_clips_do() -> None:
    ours = Clip.from_frames(noise_frames(4, 4, 1), fps=30, source="a", licence_class="open")
    theirs = Clip.from_frames(noise_frames(4, 4, 1), fps=30, source="b")
    joined = concatenate([ours, theirs])
    assert joined.source == "a+b"
    assert joined.licence_class == "unstated"
    assert concatenate([ours, ours]).licence_class == "open"


@pytest.mark.parametrize(("start", "count"), [(-1, 1), (0, 0), (0, 4), (3, 1)])
def test_a_window_outside_is_refused(start: int, count: int) -> None:
    clip = Clip.from_frames(noise_frames(4, 4, 3), fps=30)
    with pytest.raises(ConfigError, match="does not fit frames, which has 3"):
        clip.window(start, count)


def test_frames_of_two_sizes_are_no_clip() -> None:
    with pytest.raises(ContentError, match="frame 1 is 6x4, frame 0 is 4x4"):
        Clip.from_frames([Frame.empty(4, 4), Frame.empty(6, 4)], fps=30)
    small, large = (Clip.from_frames([Frame.empty(side, 4)], fps=30) for side in (4, 6))
    with pytest.raises(ContentError, match="only clips of one size"):
        concatenate([small, large])


def test_no_frames_are_no_clip() -> None:
    with pytest.raises(ContentError, match="no frames"):
        Clip.from_frames([], fps=30)
    with pytest.raises(ConfigError, match="no clips"):
        concatenate([])
    with pytest.raises(ContentError, match="frame rate is 0"):
        Clip.from_frames(noise_frames(4, 4, 1), fps=Fraction(0))
