from __future__ import annotations

from typing import TYPE_CHECKING

import cv2
import numpy as np
import pytest

from reelrl.content import pictures
from reelrl.content.colour import frame_from_rgb
from reelrl.content.frame import Frame
from reelrl.content.generated.clips import generated_clip
from reelrl.errors import ConfigError, ContentError

if TYPE_CHECKING:
    from pathlib import Path

FRAME = next(iter(generated_clip("talk", size=(160, 96), frames=1)))


@pytest.mark.parametrize("colour", [(0, 0, 0), (255, 255, 255), (200, 30, 60), (10, 180, 90), (40, 60, 220)])
def test_colours_survive_the_way_to_a_frame_and_back(colour: tuple[int, int, int]) -> None:
    frame = frame_from_rgb(np.full((8, 8, 3), colour, np.uint8))
    assert np.abs(pictures.rgb(frame).astype(int) - colour).max() <= 3


def test_the_default_agrees_with_opencv() -> None:
    other = cv2.cvtColor(FRAME.data.reshape(-1, FRAME.width), cv2.COLOR_YUV2RGB_I420)
    assert np.abs(pictures.rgb(FRAME).astype(int) - other).mean() < 2


def test_range_and_matrix_matter() -> None:
    default = pictures.rgb(FRAME)
    assert not np.array_equal(default, pictures.rgb(FRAME, "bt709"))
    assert not np.array_equal(default, pictures.rgb(FRAME, full_range=True))
    with pytest.raises(ConfigError, match="bt601, bt709"):
        pictures.rgb(FRAME, "bt2020")


def test_planes_are_shown_at_their_own_size() -> None:
    assert pictures.plane(FRAME, "y").shape == (96, 160, 3)
    assert np.array_equal(pictures.plane(FRAME, "y")[..., 0], FRAME.y)
    neutral = Frame(np.full(24, 128, np.uint8), 4, 4)
    for name in ("cb", "cr"):
        assert pictures.plane(FRAME, name).shape == (48, 80, 3)
        assert (pictures.plane(neutral, name) == 128).all()


def test_the_grid_touches_only_its_lines() -> None:
    picture = pictures.rgb(FRAME)
    changed = (pictures.with_grid(picture) != picture).any(axis=2)
    rows, columns = np.nonzero(changed)
    assert changed.any()
    assert ((rows % 64 == 0) | (columns % 64 == 0)).all()


def test_the_heat_map_is_blue_where_quality_is_raised_and_red_where_lowered() -> None:
    grey = np.full((96, 160, 3), 128, np.uint8)
    mapped = pictures.with_offsets(grey, [-3, 3, 0, 0, 0, 0], numbers=False)
    better, worse, same = mapped[30, 30], mapped[30, 90], mapped[30, 150]
    assert better[2] > better[0] + 50
    assert worse[0] > worse[2] + 50
    assert np.array_equal(same, grey[30, 150])
    assert not np.array_equal(mapped, pictures.with_offsets(grey, [-3, 3, 0, 0, 0, 0]))


def test_a_map_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"offsets have 5 entries, this picture has 6 \(2 x 3\)"):
        pictures.with_offsets(pictures.rgb(FRAME), [0] * 5)


def test_png_files_hold_the_picture(tmp_path: Path) -> None:
    picture = pictures.rgb(FRAME)
    pictures.save_png(tmp_path / "a.png", picture)
    written = cv2.imread(str(tmp_path / "a.png"))
    assert written is not None
    assert np.array_equal(written[..., ::-1], picture)
    with pytest.raises(ContentError, match="no such file or folder"):
        pictures.save_png(tmp_path / "none" / "a.png", picture)
