"""The viewings that are under way: begun, found by their id, ended, or forgotten when nobody asks any more."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reelrl.stream.play.link import Link
from reelrl.stream.play.viewing import Viewing

if TYPE_CHECKING:
    from collections.abc import Callable

EXPIRY_S = 600.0
MOST_SESSIONS = 1000


@dataclass(eq=False)
class PlaySession:
    """`viewing` is None where the page or the player decides, `link` where nothing is shaped or there is no media."""

    viewing: Viewing | None
    link: Link | None
    has_media: bool
    used_s: float


class PlaySessions:
    """By id; `now_s` is a clock that only goes forward."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._sessions: dict[str, PlaySession] = {}  # the one used longest ago first
        self.begun = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def full(self) -> bool:
        """Whether there is no room for one more, now that the forgotten ones are gone."""
        self._forget()
        return len(self._sessions) >= MOST_SESSIONS

    def begin(self, viewing: Viewing | None, link: Link | None, *, has_media: bool) -> str:
        """The id of a new session, which nobody can guess."""
        name = secrets.token_urlsafe(12)
        self._sessions[name] = PlaySession(viewing, link, has_media, self._now_s())
        self.begun += 1
        return name

    def get(self, name: str) -> PlaySession | None:
        """The session, which is in use again; None where there is no such."""
        self._forget()
        session = self._sessions.pop(name, None)
        if session is not None:
            session.used_s = self._now_s()
            self._sessions[name] = session
        return session

    def end(self, name: str) -> bool:
        """Whether there was such a session."""
        return self._sessions.pop(name, None) is not None

    def _forget(self) -> None:
        limit_s = self._now_s() - EXPIRY_S
        while self._sessions:
            oldest = next(iter(self._sessions))
            if self._sessions[oldest].used_s > limit_s:
                return
            del self._sessions[oldest]
