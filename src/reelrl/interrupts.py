"""Ctrl+C, as long jobs take it: the first one asks for an end in good order, the second one ends at once."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def first_interrupt_asks(ask: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl+C calls `ask`, a second one is a KeyboardInterrupt.

    Outside the main thread nothing changes, nor where Ctrl+C is ignored, as it is for jobs in the background.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before == signal.SIG_IGN:
        yield
        return

    def first(*_: object) -> None:
        signal.signal(signal.SIGINT, before)
        ask()

    signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
