from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from reelrl.errors import RunError
from reelrl.runs.tensorboard import Board

if TYPE_CHECKING:
    from pathlib import Path


def read(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(folder), size_guidance={"images": 0, "histograms": 0, "scalars": 0}).Reload()


def test_scalars_come_back(tmp_path: Path) -> None:
    board = Board(tmp_path)
    for step in range(5):
        board.scalars(step, {"loss": step / 2, "reward": 3})
    board.close()
    events = read(tmp_path).Scalars("loss")
    assert [(event.step, event.value) for event in events] == [(step, step / 2) for step in range(5)]
    assert {event.value for event in read(tmp_path).Scalars("reward")} == {3.0}


def test_pictures_come_back(tmp_path: Path) -> None:
    from io import BytesIO

    from PIL import Image

    picture = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    board = Board(tmp_path)
    board.image("colour", 1, picture)
    board.image("grey", 1, picture[:, :, 0])
    board.close()
    (event,) = read(tmp_path).Images("colour")
    assert (event.width, event.height) == (4, 4)
    with Image.open(BytesIO(event.encoded_image_string)) as image:
        np.testing.assert_array_equal(np.asarray(image), picture)
    assert len(read(tmp_path).Images("grey")) == 1


def test_histograms_count_the_finite_values(tmp_path: Path) -> None:
    board = Board(tmp_path)
    board.histogram("actions", 3, [0, 1, 1, 2, float("nan"), float("inf")])
    board.histogram("nothing", 3, [])
    board.close()
    (event,) = read(tmp_path).Histograms("actions")
    value = event.histogram_value
    assert (event.step, value.num, value.min, value.max, value.sum, sum(value.bucket)) == (3, 4, 0, 2, 4, 4)
    assert read(tmp_path).Tags()["histograms"] == ["actions"]


def test_what_a_resumed_run_repeats_is_shown_once(tmp_path: Path) -> None:
    first = Board(tmp_path)
    for step in range(4):
        first.scalars(step, {"loss": 1.0})
    first.close()
    second = Board(tmp_path, resumed_at=2)
    second.scalars(2, {"loss": 5.0})
    second.close()
    assert [(event.step, event.value) for event in read(tmp_path).Scalars("loss")] == [(0, 1.0), (1, 1.0), (2, 5.0)]


def test_no_event_no_file(tmp_path: Path) -> None:
    board = Board(tmp_path / "tb")
    board.flush()
    board.close()
    assert not (tmp_path / "tb").exists()


@pytest.mark.parametrize("picture", [np.zeros((4, 4)), np.zeros((4, 4, 2), np.uint8), np.zeros(4, np.uint8)])
def test_what_is_no_picture_is_refused(tmp_path: Path, picture: Any) -> None:
    with pytest.raises(RunError, match=r"picture is .*; give uint8"):
        Board(tmp_path).image("x", 1, picture)


def test_a_full_disk_is_explained_and_what_comes_later_is_not_lost(small_disk: Path) -> None:
    board = Board(small_disk / "tb")
    board.scalars(1, {"loss": 1.0})
    board.flush()
    noise = np.random.default_rng(0).integers(0, 255, (800, 800, 3), np.uint8)
    with pytest.raises(RunError, match="the disk is full"):
        board.image("noise", 1, noise)
    (torn,) = (small_disk / "tb").iterdir()
    os.truncate(torn, 2000)  # room again
    board.scalars(2, {"loss": 0.5})
    board.close()
    assert [event.value for event in read(small_disk / "tb").Scalars("loss")] == [1.0, 0.5]


def test_it_needs_neither_torch_nor_tensorflow() -> None:
    program = (
        "import sys, reelrl.runs.tensorboard; print([m for m in ('torch', 'tensorflow', 'av') if m in sys.modules])"
    )
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert child.stdout == "[]\n"
