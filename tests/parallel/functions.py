"""Tasks for executors; workers import them from here."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelrl.errors import ConfigError
from reelrl.parallel import close_at_end
from reelrl.storage.cache import RAW, cached
from reelrl.storage.files import cache_dir

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from reelrl.content.clip import Clip


def double(number: int) -> int:
    if number < 0:
        raise ConfigError(f"{number} is below 0; give 0 or more")
    return 2 * number


def where(_: int) -> str:
    time.sleep(0.2)
    return str(cache_dir())


def own_pid(task: tuple[int, Path | None]) -> int:
    """Of the worker that does tasks of this kind; where there is a mark to leave, it dies once."""
    _, mark = task
    time.sleep(0.02)
    if mark is not None:
        die_once(mark)
    return os.getpid()


def leaves_open(task: tuple[int, Path]) -> None:
    """Something for the next task of its kind, closed when the worker ends."""
    number, folder = task
    close_at_end(partial(Path.touch, folder / f"{number}.closed"))


def kind(task: tuple[int, Any]) -> int:
    return task[0]


def total(task: tuple[NDArray[np.int64], int]) -> int:
    array, number = task
    return int(array.sum()) + number


def die_once(mark: Path) -> str:
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return mark.name


def die(number: int) -> int:
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def hang_once(mark: Path) -> str:
    if not mark.exists():
        mark.touch()
        time.sleep(3600)
    return mark.name


def hang(_: int) -> None:
    time.sleep(3600)


def content_hash(clip: Clip) -> str:
    return clip.content_hash


def noted(task: tuple[Path, int, float]) -> int:
    """A piece whose result is cached by content; every time it is truly made is noted in the folder."""
    folder, number, seconds = task

    def make() -> bytes:
        time.sleep(seconds)
        (folder / f"{number}.{os.getpid()}.{time.time_ns()}").touch()
        return str(number * number).encode()

    return int(cached(cache_dir() / "noted" / folder.name / f"{number}.txt", make, RAW))


def wait_for_ever(folder: Path) -> None:
    try:
        (folder / f"{os.getpid()}.started").touch()
        while True:
            time.sleep(0.05)
    finally:
        (folder / f"{os.getpid()}.closed").touch()
