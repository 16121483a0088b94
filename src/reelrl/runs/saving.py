"""When a training saves: once a minute, when it says so itself, and before the end that Ctrl+C or SIGTERM ask for.

    with Saving(every_s=60, on_interrupt=say_so) as saving:
        while step < steps:
            step = learn()
            saving.reached(f"step {step}", save, due=step % 5000 == 0)      # raises Interrupted once it was asked for

`reached` is called wherever the state is whole. Saving only looks at the training, so that its results do not depend on
when it was saved.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Self

from reelrl.runs.interrupts import Interrupted, first_interrupt_asks

if TYPE_CHECKING:
    from collections.abc import Callable

EVERY_S = 60.0


class Saving:
    """Within `with`, the first Ctrl+C or SIGTERM sets `asked` and calls `on_interrupt`; a second one ends at once.

    `every_s` are the seconds from one checkpoint to the next: 0 saves wherever it can, infinity never by the clock.
    """

    def __init__(
        self,
        every_s: float = EVERY_S,
        on_interrupt: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.every_s = every_s
        self.asked = False
        self._on_interrupt = on_interrupt
        self._clock = clock
        self._saved_s = clock()
        self._handlers = ExitStack()

    def reached(self, place: str, save: Callable[[], object], *, due: bool = False, last: bool = False) -> None:
        """The training stands at `place`, and can be saved: do so if it is time, or `due`; then stop if asked.

        The `last` place is always saved, and is no place to stop: nothing is left to resume.
        """
        if due or last or self.asked or self._clock() - self._saved_s >= self.every_s:
            save()
            self._saved_s = self._clock()
        if self.asked and not last:
            raise Interrupted(place)

    def __enter__(self) -> Self:
        self._saved_s = self._clock()
        self._handlers.enter_context(first_interrupt_asks(self._ask))
        return self

    def __exit__(self, *_: object) -> None:
        self._handlers.close()

    def _ask(self) -> None:
        self.asked = True
        # The signal may arrive in the middle of a print, and Python refuses a second one within it.
        with suppress(RuntimeError):
            self._on_interrupt()
