"""The live page of a player: what it sees, where it looks, what each action is worth to it, and what it earned.

It draws only while somebody looks, a few frames a second, for at most a tenth of the training's time.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from reelrl.content.pictures import png_bytes
from reelrl.runs.live_server import LiveServer
from reelrl.see.monitor.panels import HEAT, colour
from reelrl.see.monitor.viewer import BUSY_SHARE, PERIOD_S, POINTS, data_uri

if TYPE_CHECKING:
    from reelrl.act.atari.players import StreamingPlayers
    from reelrl.content.games.kinds import Moment

PAGE = Path(__file__).with_name("viewer.html")
_WAYS = ("up", "right", "left", "down", "up right", "up left", "down right", "down left")
BUTTONS = ("nothing", "fire", *_WAYS, *(f"{way} fire" for way in _WAYS))
"""Of Atari's console, in its order."""


class PlayerViewer:
    """Shows moments that are offered to it. `port` as in `LiveServer`."""

    def __init__(self, source: str, frames: int, port: int | None = None) -> None:
        self._source, self._frames = source, frames
        self._server = LiveServer(PAGE.read_text(encoding="utf-8"), port)
        self._returns: list[tuple[int, float]] = []
        self._next_s = 0.0
        self._closed = False
        self._last = (time.monotonic(), 0)

    @property
    def url(self) -> str:
        return self._server.url

    def offer(self, frame: int, moment: Moment, player: StreamingPlayers, action: int, earned: float) -> None:
        """Show the moment and the action chosen in it, unless nobody looks or the last one was just now."""
        if moment.over:
            # Half of the points give way when there are too many: the chart always spans the whole run.
            thinned = self._returns if len(self._returns) < POINTS else self._returns[::2]
            self._returns = [*thinned, (frame, earned)]
        start_s = time.monotonic()
        if start_s < self._next_s or not self._server.watched:
            return
        before_s, before = self._last
        self._last = start_s, frame
        preferences, saliency = player.look()
        pictures = {} if moment.picture is None else {"picture": data_uri(png_bytes(moment.picture))}
        if saliency is not None:
            pictures["saliency"] = data_uri(png_bytes(colour(saliency**0.5, HEAT)))
        named = self._source.startswith("ale:") and len(preferences) == len(BUTTONS)
        self._server.publish(
            {
                "source": self._source,
                "frame": frame,
                "frames": self._frames,
                "fps": (frame - before) / max(start_s - before_s, 1e-9),
                "earned": earned,
                "action": action,
                "names": list(BUTTONS) if named else [str(number) for number in range(len(preferences))],
                "preferences": preferences,
                "likely": player.settings.algorithm == "actor-critic",
                "pictures": pictures,
                "returns": self._returns,
            }
        )
        self._next_s = start_s + max(PERIOD_S, (time.monotonic() - start_s) / BUSY_SHARE)

    def close(self, last_words: str = "the training has ended") -> None:
        """Tell those who look, and end. A second call does nothing."""
        if not self._closed:
            self._closed = True
            self._server.publish({"ended": last_words})
            self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
