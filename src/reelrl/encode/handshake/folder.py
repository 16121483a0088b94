"""The folder in which an encoder and its trainer meet: whole messages only, and waiting that costs next to nothing."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from reelrl.encode.handshake.messages import MESSAGES, Message, checked, file_name
from reelrl.errors import ContentError, HandshakeError
from reelrl.storage.files import explain_os_error, write_atomic
from reelrl.storage.folder_events import FolderEvents
from reelrl.storage.locks import FolderLock, is_locked
from reelrl.storage.plain_data import parse_json
from reelrl.storage.regular_files import own_path, read_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TRAINER, ENCODER = ".lock", ".encoder.lock"
"""Lock files of the two sides. The kernel frees them when their holder dies, so they also tell who is there."""

_OURS = re.compile(r"\.?mg\d{4,}_(rq|qp|fb)\b.*")  # with temporary names that a killed writer left
LARGEST_MESSAGE = 16 << 20  # bytes; the plan of a whole film has one or two million
_SHORTEST_S, _LONGEST_S = 0.0002, 0.1
_WITH_EVENTS_S = 0.02  # shortest pause where events end it; it only finds out that the other side has died


class HandshakeFolder:
    """Messages of one side to the other, by mini-GOP and kind ("rq", "qp", "fb").

    A file that is no JSON may still be being written by somebody who does not rename: it is given `settle_s`
    without a change before it is refused.
    """

    def __init__(self, path: str | Path, *, settle_s: float = 1.0) -> None:
        self.path = Path(path)
        self.settle_s = settle_s
        self._events: FolderEvents | None = None
        self._broken: tuple[str, bytes, float] = ("", b"", 0.0)  # file, content, since when it stands there like that

    def lock(self, side: str) -> FolderLock:
        """Be the only one of a side; a second is refused and told who is there."""
        return FolderLock(
            self.path, side, advice="give each encode a folder of its own (--rl-dir), or stop that process"
        )

    def someone_is(self, side: str) -> bool:
        return is_locked(self.path, side)

    def clear(self) -> None:
        """Remove the messages of an earlier encode."""
        for path in self._messages():
            _unlink(path)

    def remove(self, mg: int, kind: str) -> None:
        _unlink(self.path / file_name(mg, kind))

    def write(self, mg: int, kind: str, message: Message) -> None:
        path = self.path / file_name(mg, kind)
        # Checked as the other side will: what we could not read we do not write.
        text = json.dumps(checked(message, MESSAGES[kind], path.name), allow_nan=False)
        write_atomic(own_path(path), text + "\n", durable=False)

    def read(self, mg: int, kind: str, *, final: bool = False) -> Message | None:
        """The message; None while there is none or only a part of it. With `final` nobody will write any more."""
        name = file_name(mg, kind)
        try:
            content = read_regular(self.path / name, LARGEST_MESSAGE)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise HandshakeError(explain_os_error(error, self.path / name, "read")) from error
        try:
            message = parse_json(content)
        except ValueError as error:
            if final or self._stands(name, content):
                start = content[:60].decode("utf-8", "replace")
                raise HandshakeError(
                    f"{name} is no whole JSON ({error}): {start!r}; write it anew, then rename"
                ) from None
            return None
        known = checked(message, MESSAGES[kind], name)
        if known.get("mg", mg) != mg:
            raise HandshakeError(f"{name} speaks of mini-GOP {known['mg']}; number the file and the field alike")
        return known

    def wait(
        self, mg: int, kind: str, deadline_s: float, over: Callable[[float], bool] = lambda _waited_s: False
    ) -> Message | None:
        """The message once it is there; None after `deadline_s`, or when `over(seconds waited)` says so before."""
        if self._events is None:
            self._events = FolderEvents(self.path)
        start_s = time.monotonic()
        while True:
            waited_s = time.monotonic() - start_s
            # Asked before looking: what was written before the end still counts.
            is_over = waited_s >= deadline_s or over(waited_s)
            message = self.read(mg, kind, final=is_over)
            if message is not None or is_over:
                return message
            shortest_s = _WITH_EVENTS_S if self._events.available else _SHORTEST_S
            self._events.pause(min(pause_s(waited_s, shortest_s), deadline_s - waited_s))

    def close(self) -> None:
        """Hear no more events."""
        if self._events is not None:
            self._events.close()

    def _messages(self) -> Iterator[Path]:
        return (path for path in list(self.path.iterdir()) if _OURS.fullmatch(path.name))

    def _stands(self, name: str, content: bytes) -> bool:
        now_s = time.monotonic()
        if (name, content) != self._broken[:2]:
            self._broken = (name, content, now_s)
        return now_s - self._broken[2] >= self.settle_s


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise ContentError(explain_os_error(error, path, "remove")) from error


def pause_s(waited_s: float, shortest_s: float = _SHORTEST_S) -> float:
    """How long to wait until the next look.

    An eighth of the time waited, so that looking late never adds more than that; a tenth of a second at most, which
    costs about a thousandth of a core.
    """
    return min(max(waited_s / 8, shortest_s), _LONGEST_S)
