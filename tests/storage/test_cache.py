from __future__ import annotations

import hashlib
import io
import multiprocessing
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from reelrl.storage.cache import RAW, Format, arrays_of, cached, cached_array, json_of, key_of, load, store

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


@dataclass(frozen=True)
class Counted:
    name: str
    sizes: list[int]


@dataclass(frozen=True, eq=False)
class Measured:
    sizes: np.ndarray
    seconds: float


def test_a_dataclass_of_plain_data_comes_back_as_it_was(tmp_path: Path) -> None:
    made = Counted("a", [1, 2])
    assert cached(tmp_path / "new" / "a.json", lambda: made, json_of(Counted)) is made
    assert cached(tmp_path / "new" / "a.json", lambda: pytest.fail("made again"), json_of(Counted)) == made


def test_a_dataclass_of_arrays_and_numbers_comes_back_as_it_was(tmp_path: Path) -> None:
    made = Measured(np.arange(5, dtype=np.int64), 0.25)
    cached(tmp_path / "a.npz", lambda: made, arrays_of(Measured))
    again = cached(tmp_path / "a.npz", lambda: pytest.fail("made again"), arrays_of(Measured))
    np.testing.assert_array_equal(again.sizes, made.sizes)
    assert again.sizes.dtype == np.int64
    assert (type(again.seconds), again.seconds) == (float, 0.25)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"name": "a"}', b'{"other": 1}', b"\xff"])
@pytest.mark.parametrize("form", [json_of(Counted), arrays_of(Counted)])
def test_a_result_of_another_version_is_made_anew(tmp_path: Path, body: bytes, form: Format[Counted]) -> None:
    store(tmp_path / "result", body)
    made = Counted("a", [])
    assert cached(tmp_path / "result", lambda: made, form) is made


def test_a_result_that_does_not_fit_is_replaced(tmp_path: Path) -> None:
    store(tmp_path / "result", b"short")
    assert cached(tmp_path / "result", lambda: b"long enough", RAW, lambda body: len(body) > 5) == b"long enough"
    assert load(tmp_path / "result") == b"long enough"


def test_a_key_depends_on_every_fact_and_not_on_the_order_of_names() -> None:
    assert key_of({"a": 1, "b": [2]}) == key_of({"b": [2], "a": 1})
    assert len({key_of(["x", 1]), key_of(["x", 2]), key_of(["y", 1])}) == 3
    assert key_of(["x"], digits=40).startswith(key_of(["x"]))
