"""libaom in two passes, with look-ahead and alternate references, its quantisers chosen frame by frame from outside.

    statistics = two_pass_statistics(clip, settings)  # of `first_pass`
    with TwoPassSession(clip, settings, statistics) as session:
        while (question := session.request()) is not None:     # before each coded frame
            session.reply(120 + 8 * question.layer)            # its quantiser index
        stream = session.packets

libaom asks in the middle of a call, so it runs in a thread of its own and waits there for the answer. What every frame
before the one in question cost is known by then: `coded`.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from contextlib import suppress
from queue import Empty
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from reelrl.encode.codecs.aom.first_pass import check_two_pass
from reelrl.encode.codecs.aom.steered_encode import LONGEST_GOP, SHORTEST_GOP, SteeredEncode
from reelrl.errors import ConfigError, EncoderError, EncoderTimeout

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reelrl.content.frame import Frame
    from reelrl.encode.codecs.aom.gops import FrameToCode
    from reelrl.encode.codecs.aom.steered_encode import CodedFrame
    from reelrl.encode.codecs.packet import Packet
    from reelrl.encode.codecs.settings import EncoderSettings

LOWEST_QINDEX, HIGHEST_QINDEX = 1, 255

PATIENCE_S = 600.0
"""How long an encoder waits for a decision before it gives up and frees its memory."""

_open_sessions: weakref.WeakSet[TwoPassSession] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Callbacks must not come into an interpreter that is half gone."""
    for session in tuple(_open_sessions):
        session.close()


class TwoPassSession:
    """One second pass over `frames`, in a thread of its own.

    steered       False leaves every quantiser to libaom: nothing is asked, `coded` says what it chose
    keep_delta_q  libaom's own quantiser offsets inside a frame stay, around the quantiser that was asked for. This
                  writes into a private field of libaom; where it does not lie where it should, there is a warning,
                  and the session goes on without
    patience_s    how long libaom waits for a decision

    Sessions may live side by side; one session is for one thread at a time.
    """

    def __init__(
        self,
        frames: Iterable[Frame],
        settings: EncoderSettings,
        statistics: bytes,
        *,
        steered: bool = True,
        keep_delta_q: bool = False,
        patience_s: float = PATIENCE_S,
    ) -> None:
        check_two_pass(settings, steered=steered)
        self.settings = settings
        self._question: FrameToCode | None = None
        self._ended = self._closed = False
        # The thread knows the work, not the session: who drops a session ends its thread.
        self._work = SteeredEncode(frames, settings, statistics, steered, keep_delta_q, patience_s)
        self._thread = threading.Thread(target=self._work.run, name="aom-two-pass", daemon=True)
        self._thread.start()
        _open_sessions.add(self)

    @property
    def packets(self) -> list[Packet]:
        """Temporal units in display order, as far as they are coded."""
        return self._work.packets

    @property
    def coded(self) -> list[CodedFrame]:
        """Every frame coded so far, in coding order."""
        return self._work.coded

    def request(self) -> FrameToCode | None:
        """The frame that libaom wants to code; None when the stream is whole."""
        if self._closed:
            raise EncoderError("the session is closed; open another")
        if self._question is None and not self._ended:
            found = self._next_question()
            if isinstance(found, BaseException):
                self.close()
                raise found
            self._question, self._ended = found, found is None
        return self._question

    def reply(self, qindex: int, gop_limit: int | None = None) -> None:
        """The quantiser index, 1 (best) to 255, of the frame that was asked about.

        `gop_limit` is how many frames the next GOP and those after it may show, 4 to 32; None changes nothing.
        """
        chosen = _checked("qindex", qindex, LOWEST_QINDEX, HIGHEST_QINDEX)
        if gop_limit is not None:
            gop_limit = _checked("gop_limit", gop_limit, SHORTEST_GOP, LONGEST_GOP)
        if self._closed:
            raise EncoderError("the session is closed; open another")
        if self._question is None:
            raise EncoderError("no frame was asked about; call request() first")
        if not self._thread.is_alive():
            raise self._outlived()
        self._question = None
        self._work.answers.put((chosen, gop_limit))

    def close(self) -> None:
        """End the encoder, in mid-stream too. Closing twice does nothing."""
        if self._closed:
            return
        self._closed = True
        _open_sessions.discard(self)
        self._work.answers.put(None)
        # A session that nobody holds may be collected on any thread, its own too.
        if threading.current_thread() is not self._thread:
            self._thread.join(self.settings.call_deadline_s)

    def _next_question(self) -> FrameToCode | BaseException | None:
        """What the encoder has to say; where it asks nothing the pass may be long: the deadline is for each frame."""
        progress = -1
        while progress != self._work.progress:
            progress = self._work.progress
            with suppress(Empty):
                return self._work.questions.get(timeout=self.settings.call_deadline_s)
        self._give_up()
        raise EncoderTimeout(
            f"libaom did not come to its next frame within {self.settings.call_deadline_s:g} s; the session is lost: "
            "raise deadline_s"
        )

    def _outlived(self) -> EncoderError:
        """Why the thread has ended while a question was open."""
        self._closed = True
        _open_sessions.discard(self)
        try:
            found = self._work.questions.get_nowait()
        except Empty:
            found = None
        return found if isinstance(found, EncoderError) else EncoderError("the encoder ended before the reply")

    def _give_up(self) -> None:
        """Leave a thread behind that is lost inside the library."""
        self._closed = True
        _open_sessions.discard(self)
        self._work.answers.put(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self.close()


def _checked(name: str, value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ConfigError(f"{name} = {value!r} is {type(value).__name__}; give a whole number from {low} to {high}")
    if not low <= value <= high:
        raise ConfigError(f"{name} = {value}; it lies in {low} to {high}")
    return int(value)
