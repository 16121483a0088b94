"""Ctrl+C and SIGTERM, as long jobs take them: the first asks for an end in good order, the second ends at once.

A terminal sends SIGINT, a batch system that takes a machine back SIGTERM; they mean the same here.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """The end that was asked for, once everything is saved. Its text says where that was: "step 1200"."""


@contextmanager
def first_interrupt_asks(ask: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl+C or SIGTERM calls `ask`; the second does what it would do without this.

    Outside the main thread nothing changes, nor for a signal that is ignored, as Ctrl+C is for jobs in the background.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.getsignal(each) for each in SIGNALS}
    handled = {each: handler for each, handler in before.items() if handler not in (signal.SIG_IGN, None)}

    def put_back() -> None:
        for each, handler in handled.items():
            signal.signal(each, handler)

    def first(*_: object) -> None:
        put_back()
        ask()

    for each in handled:
        signal.signal(each, first)
    try:
        yield
    finally:
        put_back()


@contextmanager
def sigterm_is_ctrl_c() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt, so that what is open is closed; where somebody handles it already, it stays."""
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt
