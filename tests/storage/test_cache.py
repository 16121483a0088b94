from __future__ import annotations

import hashlib
import io
import multiprocessing
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from reelrl.storage.cache import cached_array

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = (40, 8, 30)


def numbers(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(SHAPE, np.float32)


def never() -> np.ndarray:
    pytest.fail("made again")


def test_an_array_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "array.npy"
    np.testing.assert_array_equal(cached_array(path, SHAPE, numbers), numbers())
    np.testing.assert_array_equal(cached_array(path, SHAPE, never), numbers())
    assert [file.name for file in path.parent.iterdir()] == ["array.npy"]


def test_the_file_is_one_that_numpy_reads(tmp_path: Path) -> None:
    cached_array(tmp_path / "array.npy", SHAPE, numbers)
    np.testing.assert_array_equal(np.load(tmp_path / "array.npy", allow_pickle=False), numbers())


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:10],
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: flip(data, 8),
        lambda data: flip(data, len(data) // 2),
        lambda data: flip(data, len(data) - 1),
        lambda data: b"\0" * len(data),
    ],
)
def test_a_damaged_file_is_made_anew(tmp_path: Path, damage: Any) -> None:
    path = tmp_path / "array.npy"
    cached_array(path, SHAPE, numbers)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    np.testing.assert_array_equal(cached_array(path, SHAPE, numbers), numbers())
    assert path.read_bytes() == whole


@pytest.mark.parametrize("other", [np.zeros((2, 2), np.float32), np.zeros(SHAPE), np.array([{}], object)])
def test_a_foreign_array_is_not_taken(tmp_path: Path, other: np.ndarray) -> None:
    path, body = tmp_path / "array.npy", io.BytesIO()
    np.save(body, other)
    path.write_bytes(body.getvalue() + hashlib.sha256(body.getvalue()).digest())
    np.testing.assert_array_equal(cached_array(path, SHAPE, numbers), numbers())


def test_without_a_folder_to_write_to_it_works_with_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "cache"
    with pytest.warns(RuntimeWarning, match="computed each time.*a part of the path is a file"):
        first = cached_array(folder / "first.npy", SHAPE, numbers)
    second = cached_array(folder / "second.npy", SHAPE, numbers)  # a second warning would be an error
    np.testing.assert_array_equal(first, second)


def test_a_full_disk_costs_a_warning_and_leaves_nothing(small_disk: Path) -> None:
    big = np.zeros((600, 600), np.float32)
    with pytest.warns(RuntimeWarning, match="the disk is full"):
        np.testing.assert_array_equal(cached_array(small_disk / "array.npy", big.shape, lambda: big), big)
    assert list(small_disk.iterdir()) == []


def test_a_failed_computation_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        cached_array(tmp_path / "array.npy", SHAPE, lambda: np.zeros(1 // 0, np.float32))
    assert list(tmp_path.iterdir()) == []


def write_often(path: Path, times: int) -> None:
    for _ in range(times):
        path.unlink(missing_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert np.array_equal(cached_array(path, SHAPE, numbers), numbers())


@pytest.mark.slow
def test_processes_at_once_never_see_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "array.npy"
    start = multiprocessing.get_context("spawn")
    writers = [start.Process(target=write_often, args=(path, 300)) for _ in range(3)]
    for writer in writers:
        writer.start()
    seen = 0
    while any(writer.is_alive() for writer in writers):
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            continue
        assert hashlib.sha256(data[:-32]).digest() == data[-32:]
        seen += 1
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert seen > 0
