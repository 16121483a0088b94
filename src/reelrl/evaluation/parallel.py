"""`map` over processes, for tasks that are plain records and take their time."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from reelrl.errors import ConfigError

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
    pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))
    try:
        yield pool.map
    finally:
        # After an error or Ctrl+C nobody waits for what has not begun.
        pool.shutdown(cancel_futures=True)
