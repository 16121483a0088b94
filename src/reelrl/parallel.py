"""`map` over processes, for tasks that are plain records and take their time."""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from reelrl.errors import ConfigError
from reelrl.file_trust import files_are_trusted, trusting_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def processes(jobs: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """A `map` that works in `jobs` processes and gives results in order; within this process if there is one job."""
    if jobs < 1:
        raise ConfigError(f"jobs = {jobs}; use 1 or more")
    if jobs == 1:
        yield map
        return
    # Spawned, not forked: numba, torch and the encoders keep threads that a fork would tear.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_start, initargs=(files_are_trusted(),))
    try:
        yield pool.map
    finally:
        # After an error or Ctrl+C nobody waits for what has not begun.
        pool.shutdown(cancel_futures=True)


def _start(trust: bool) -> None:
    trusting_files(trust).__enter__()  # for as long as this process lives
    _end_with_parent()


def _end_with_parent() -> None:
    """A parent that was killed cannot send its workers home; they would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_leave_after, args=(parent.sentinel,), daemon=True).start()


def _leave_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
