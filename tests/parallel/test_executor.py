"""Laws of the executor: the same records however the work is done, errors that name their task, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from reelrl.errors import ConfigError, MissingExtra, WorkerError
from reelrl.parallel import InProcess, Threads, WorkPlace, cores, executor, working_at
from reelrl.parallel.place import work_place
from reelrl.parallel.worker_processes import Workers
from tests.parallel import functions
from tests.waiting import HANG_S, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reelrl.parallel import Executor

pytestmark = pytest.mark.slow

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")


def double(number: int) -> int:
    if number < 0:
        raise ConfigError(f"{number} is below 0; give 0 or more")
    return 2 * number


def double_slowly(number: int) -> int:
    time.sleep(0.1)
    return double(number)


def one_after_the_other(task: tuple[Path, bool]) -> None:
    mark, wait = task
    if wait:
        until(mark.exists)
        time.sleep(0.5)  # until the other's record has come
    else:
        mark.touch()


def without_extra(_: int) -> None:
    raise MissingExtra("something", "extra")  # does not survive pickling as it is


def die(number: int) -> int:
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def own_id(_: int) -> int:
    time.sleep(0.2)
    return os.getpid()


def opencv_threads(_: int) -> int:
    import cv2

    return cv2.getNumThreads()


@pytest.fixture(scope="module")
def workers() -> Iterator[Executor]:
    with executor(2) as work:
        yield work


@pytest.fixture(params=["here", "threads", "workers"])
def work(request: pytest.FixtureRequest, workers: Executor) -> Iterator[Executor]:
    if request.param == "workers":
        yield workers
        return
    with executor(1) if request.param == "here" else executor(2, threads=True) as made:
        yield made


def test_jobs_choose_who_works() -> None:
    assert isinstance(executor(1), InProcess)
    assert isinstance(executor(2, threads=True), Threads)
    two = executor(2)
    assert isinstance(two, Workers)
    assert two.jobs == 2
    everything = executor(0)
    assert everything.jobs == cores() if isinstance(everything, Workers) else cores() == 1
    with pytest.raises(ConfigError, match="jobs = -1; use 1 or more, or 0"):
        executor(-1)


def test_records_are_the_same_and_in_order(work: Executor) -> None:
    assert list(work.map(double, range(7))) == [0, 2, 4, 6, 8, 10, 12]
    assert sorted(work.as_completed(double, range(5))) == [(0, 0), (1, 2), (2, 4), (3, 6), (4, 8)]
    assert list(work.map(double, [])) == []


def test_a_list_may_grow_while_its_records_are_read(work: Executor) -> None:
    tasks, found = [1], []
    for record in work.map(double, tasks):
        found.append(record)
        if record < 100:
            tasks.append(record)
    assert found == [2, 4, 8, 16, 32, 64, 128]


def test_an_error_comes_in_its_turn_and_names_its_task(work: Executor) -> None:
    records = work.map(double, [1, -2, -3], name=lambda number: f"the number {number}")
    assert next(records) == 2
    with pytest.raises(ConfigError, match="-2 is below 0") as caught:
        next(records)
    assert caught.value.__notes__ == ["task: the number -2"]
    with pytest.raises(ConfigError, match="-2") as caught:
        list(work.as_completed(double, [-2]))
    assert caught.value.__notes__ == ["task: -2"]
    assert list(work.map(double, [4])) == [8]  # and the executor goes on


def test_after_a_stop_what_is_under_way_is_finished_and_nothing_begun(work: Executor) -> None:
    try:
        records = work.map(double_slowly, range(500))  # a minute in all, if nothing stopped it
        some = [next(records)]
        work.stop()
        some += records
        assert some == [2 * number for number in range(len(some))]
        assert len(some) < 500
        assert list(work.map(double, [1])) == []
    finally:
        work.stopping = False  # others use it too


def test_as_completed_gives_the_quick_ones_first(workers: Executor, tmp_path: Path) -> None:
    tasks = [(tmp_path / "done", wait) for wait in (True, False)]
    assert [wait for (_, wait), _ in workers.as_completed(one_after_the_other, tasks)] == [False, True]


def test_a_worker_s_error_keeps_its_words_and_its_traceback(workers: Executor) -> None:
    with pytest.raises(Exception, match=r"pip install 'reelrl\[extra\]'"):
        list(workers.map(without_extra, [0]))
    with pytest.raises(ConfigError) as caught:
        list(workers.map(double, [-1]))
    assert "in double" in str(caught.value.__cause__)
    with pytest.raises(Exception, match="lambda"):
        list(workers.map(lambda number: number, [0]))


def test_a_loop_that_is_left_ends_what_is_at_work() -> None:
    with executor(2) as work:
        names = [next(iter(work.map(own_id, range(6))))]
        until(lambda: not alive(names))
        assert len(set(work.map(own_id, range(2)))) == 2  # others are started


@posix
def test_tasks_that_belong_together_go_to_one_worker_while_it_lives(tmp_path: Path) -> None:
    tasks: list[tuple[int, Path | None]] = [(number, None) for number in range(3)]
    with Workers(2, restarts=1) as work:
        first = list(work.map(functions.own_pid, tasks, near=functions.kind))
        assert first[0] == first[2] != first[1]  # dealt out in turn
        assert list(work.map(functions.own_pid, tasks[::-1], near=functions.kind)) == first[::-1]
        again = list(work.map(functions.own_pid, [(1, tmp_path / "died"), *tasks], near=functions.kind))
        assert again == [again[0], first[0], again[0], first[0]]
        assert again[0] not in first
        assert set(work.map(double, range(4))) == {0, 2, 4, 6}  # and others to anybody
        list(work.map(functions.leaves_open, [(0, tmp_path), (1, tmp_path)], near=functions.kind))
        assert not list(tmp_path.glob("*.closed"))
    assert len(list(tmp_path.glob("*.closed"))) == 2


@posix
@pytest.mark.parametrize(("setting", "threads"), [(None, 1), ("2", 2)])
def test_a_worker_s_opencv_has_one_thread_unless_a_user_wants_more(
    setting: str | None, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENCV_FOR_THREADS_NUM", raising=False)
    if setting is not None:
        monkeypatch.setenv("OPENCV_FOR_THREADS_NUM", setting)
    with executor(2) as work:
        assert list(work.map(opencv_threads, range(2))) == [threads, threads]


def test_a_killed_worker_is_an_error_in_words() -> None:
    with executor(2) as work:
        with pytest.raises(WorkerError, match=r"middle of a task \(exit status -9\).*fewer --workers") as caught:
            list(work.map(die, range(3)))
        assert caught.value.__notes__ == ["task: 1"]
        assert list(work.map(double, range(2))) == [0, 2]


def die_once(mark: Path) -> str:
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return mark.name


@posix
def test_a_killed_worker_is_started_again_where_that_is_asked_for(tmp_path: Path) -> None:
    marks = [tmp_path / name for name in "abc"]
    with executor(2, restarts=1) as work:
        assert list(work.map(die_once, marks)) == ["a", "b", "c"]
        with pytest.raises(WorkerError, match="exit status -9"):
            list(work.map(die, [1]))  # again and again


LONG = """
import os, sys, time
from pathlib import Path
from reelrl.cli.main import INTERRUPTED
from reelrl.parallel import executor
from reelrl.runs.interrupts import sigterm_is_ctrl_c

def task(number):
    folder = Path(sys.argv[1])
    child = os.getpid()
    try:
        (folder / f"{child}.started").touch()
        time.sleep(3600)
    finally:
        (folder / f"{child}.closed").touch()

if __name__ == "__main__":
    try:
        with sigterm_is_ctrl_c(), executor(2) as work:
            list(work.map(task, range(8)))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
"""


@posix
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("to", ["parent", "everybody"])
def test_however_the_parent_ends_the_workers_end(tmp_path: Path, how: signal.Signals, to: str) -> None:
    if (how, to) == (signal.SIGKILL, "everybody"):
        pytest.skip("kills them itself")
    script = tmp_path / "long.py"
    script.write_text(LONG)
    parent = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)], start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    until(lambda: len(list(tmp_path.glob("*.started"))) == 2)
    children = [int(path.stem) for path in tmp_path.glob("*.started")]
    (os.killpg if to == "everybody" else os.kill)(parent.pid, how)
    said = parent.communicate(timeout=HANG_S)[1]
    assert parent.returncode == (-9 if how == signal.SIGKILL else 130)
    until(lambda: not alive(children))
    assert len(list(tmp_path.glob("*.started"))) == 2  # what had not begun was not begun
    if how != signal.SIGKILL:
        assert "Traceback" not in said
        assert len(list(tmp_path.glob("*.closed"))) == 2


def alive(processes: list[int]) -> list[int]:
    return [number for number in processes if _is_there(number)]


def _is_there(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


def hang_once(mark: Path) -> str:
    if not mark.exists():
        mark.touch()
        time.sleep(3600)
    return mark.name


@posix
def test_a_task_past_its_deadline_is_ended_with_its_worker(tmp_path: Path) -> None:
    with working_at(WorkPlace(deadline_s=20.0)):
        with executor(1) as work:
            assert isinstance(work, Workers)  # a task of this very process could not be ended
            assert list(work.map(double, [3])) == [6]
        with executor(2) as work:
            work.deadline_s = 1.0  # type: ignore[attr-defined]  # the first of these have long started Python
            with pytest.raises(WorkerError, match=r"not done after its deadline of 1 s .*--deadline") as caught:
                list(work.map(hang_once, [tmp_path / "a"], name=lambda mark: mark.name))
            assert caught.value.__notes__ == ["task: a"]
        with executor(2, restarts=1) as work:
            work.deadline_s = 5.0  # type: ignore[attr-defined]
            assert list(work.map(hang_once, [tmp_path / "b", tmp_path / "c"])) == ["b", "c"]
    with pytest.raises(ConfigError, match="deadline = 0 s; use more than 0"):
        WorkPlace(deadline_s=0.0)


def test_a_place_is_said_once_and_its_workers_stay_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REELRL_RAY", "somewhere:1")
    assert work_place() == WorkPlace("somewhere:1")
    with working_at(WorkPlace()):
        assert work_place() == WorkPlace()
        assert isinstance(executor(1), InProcess)
        with executor(2) as work:
            assert set(work.map(place_of_worker, range(2))) == {WorkPlace()}
    assert work_place() == WorkPlace("somewhere:1")


def place_of_worker(_: int) -> WorkPlace:
    return work_place()
