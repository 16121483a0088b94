from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from reelrl.content.clip import Clip
from reelrl.content.generated.clips import generated_clip
from reelrl.content.read.carried import Carried, Presentation, carried_by, read_carried
from reelrl.content.write.video import write_video
from tests.content.makers import encode, noise_frames, smooth_frames
from tests.content.whole_files import Whole

if TYPE_CHECKING:
    from pathlib import Path

BT709 = "colorprim=bt709:transfer=bt709:colormatrix=bt709:fullrange=on:sar=4/3"


def test_colours_and_shape_are_read_from_the_stream(tmp_path: Path) -> None:
    path = encode(tmp_path / "a.mkv", smooth_frames(64, 48, 4), codec="libx264", options={"x264-params": BT709})
    assert read_carried(path).presentation == Presentation(
        primaries=1, transfer=1, matrix=1, color_range=2, aspect=Fraction(4, 3)
    )


def test_what_has_no_place_in_our_files_is_named(tmp_path: Path) -> None:
    path = encode(
        tmp_path / "a.mkv", smooth_frames(64, 48, 4), codec="libx264", options={"x264-params": "frame-packing=3"}
    )
    assert read_carried(path).not_carried == ("the arrangement of stereoscopic video",)


def test_a_y4m_says_the_shape_of_its_pixels(tmp_path: Path) -> None:
    path = tmp_path / "a.y4m"
    write_video(path, Clip.from_frames(noise_frames(8, 8, 2), fps=30))
    path.write_bytes(path.read_bytes().replace(b"A1:1", b"A4:3", 1))
    carried = read_carried(path)
    assert (carried.presentation.aspect, carried.timing) == (Fraction(4, 3), None)


def test_clips_that_are_no_file_carry_nothing(tmp_path: Path) -> None:
    raw = tmp_path / "a_8x8_30.yuv"
    write_video(raw, Clip.from_frames(noise_frames(8, 8, 2), fps=30))
    for clip in (generated_clip("street", size=(64, 64), frames=2), Clip.open(raw)):
        assert carried_by(clip) == Carried()


def test_a_window_carries_what_belongs_to_it(tmp_path: Path) -> None:
    clip = Clip.open(Whole().write(tmp_path / "a.mkv"))
    whole, part = carried_by(clip), carried_by(clip.window(0, 6))
    assert whole.timing is not None
    assert part.timing == whole.timing.first(6)
    assert (whole.ends_early, part.ends_early) == (False, True)
