from __future__ import annotations

import errno
import multiprocessing
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from reelrl.errors import ContentError, RunError
from reelrl.storage.files import atomic_path, cache_dir, explain_os_error, writable_folder, write_atomic

WHOLE = bytes(200_000)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_written_file_holds_the_data_and_nothing_stays_beside_it(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a.txt", "grün")
    write_atomic(tmp_path / "b.bin", b"\x00\xff")
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "grün"
    assert (tmp_path / "b.bin").read_bytes() == b"\x00\xff"
    assert names_in(tmp_path) == ["a.txt", "b.bin"]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failed_block_keeps_the_old_file_and_leaves_nothing(tmp_path: Path, failure: type[BaseException]) -> None:
    target = tmp_path / "clip.mp4"
    target.write_text("old")

    def fail() -> None:
        with atomic_path(target) as temporary:
            temporary.write_text("half")
            raise failure

    with pytest.raises(failure):
        fail()
    assert target.read_text() == "old"
    assert names_in(tmp_path) == ["clip.mp4"]


def test_the_temporary_is_a_sibling_with_the_same_suffix(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "clip.mp4") as temporary:
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".mp4"
        temporary.touch()


def test_a_block_that_writes_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ContentError, match=r"cannot write .*no such file"), atomic_path(tmp_path / "a"):
        pass


def test_a_link_is_followed_and_stays(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_atomic(tmp_path / "link", "x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "x"


def test_a_device_is_written_not_replaced() -> None:
    write_atomic("/dev/null", "x")
    assert Path("/dev/null").is_char_device()


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ContentError, match="it is a folder; give the name of a file"):
        write_atomic(tmp_path, "x")


def test_a_missing_folder_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ContentError, match="no such file or folder; check the path"):
        write_atomic(tmp_path / "absent" / "a", "x")


def test_a_path_through_a_file_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ContentError, match="a part of the path is a file, not a folder; check the path"):
        write_atomic(tmp_path / "file" / "a", "x")


def test_an_error_about_another_file_is_not_taken_for_ours(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic_path(tmp_path / "a"):
        (tmp_path / "source").read_bytes()


def test_a_full_disk_is_explained_and_keeps_the_old_file(small_disk: Path) -> None:
    target = small_disk / "data.bin"
    write_atomic(target, b"old")
    with pytest.raises(ContentError, match=r"the disk is full \(\d+ bytes left\); free some space"):
        write_atomic(target, bytes(2_000_000))
    assert target.read_bytes() == b"old"
    assert names_in(small_disk) == ["data.bin"]


def test_a_size_limit_is_explained_and_leaves_nothing(tmp_path: Path) -> None:
    program = (
        "import resource, sys; from reelrl.storage.files import write_atomic\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "write_atomic(sys.argv[1], bytes(5000))"
    )
    child = subprocess.run([sys.executable, "-c", program, tmp_path / "a"], capture_output=True, text=True)
    assert "the file grew past the size limit; raise `ulimit -f`" in child.stderr
    assert names_in(tmp_path) == []


def test_a_writable_folder_is_made_and_stays_empty(tmp_path: Path) -> None:
    folder = writable_folder(tmp_path / "a" / "b")
    assert folder.is_dir()
    assert names_in(folder) == []


def test_a_folder_below_a_file_is_refused_with_the_error_asked_for(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="a part of the path is a file"):
        writable_folder(tmp_path / "file" / "x", error=RunError)


def test_a_read_only_folder_is_refused(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(ContentError, match="read-only; choose another folder"):
        writable_folder(small_disk)
    with pytest.raises(ContentError, match="read-only; choose another folder"):
        write_atomic(small_disk / "a", "x")


def test_an_unknown_error_keeps_the_systems_words() -> None:
    text = explain_os_error(OSError(errno.EIO, "Input/output error"), "x", "read")
    assert text.startswith("cannot read x: Input/output error;")


def test_the_cache_can_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REELRL_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "reelrl"
    monkeypatch.setenv("REELRL_CACHE", str(tmp_path / "mine"))
    assert cache_dir() == tmp_path / "mine"


def replace_often(path: Path, times: int) -> None:
    for _ in range(times):
        path.unlink(missing_ok=True)
        write_atomic(path, WHOLE, durable=False)


@pytest.mark.slow
def test_a_file_that_others_remove_all_the_time_is_still_never_seen_in_half(tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    start = multiprocessing.get_context("spawn")
    writers = [start.Process(target=replace_often, args=(path, 1000)) for _ in range(3)]
    for writer in writers:
        writer.start()
    sizes = Counter[int]()
    while any(writer.is_alive() for writer in writers):
        with suppress(FileNotFoundError):
            sizes[len(path.read_bytes())] += 1
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert sizes.keys() == {len(WHOLE)}
