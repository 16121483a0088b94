"""An encoder as a user holds it: frames and decisions in, packets out.

    with EncoderSession(EncoderSettings(width=352, height=288, picture_qp=True)) as session:
        for frame in clip:
            session.send(frame, qp=38, offsets=offsets)
            for packet in session.receive():
                ...
        for packet in session.flush():
            ...

What a session in your process cannot survive is the library crashing it. `WorkerSession` keeps the encoder in a
process of its own, with the same methods.
"""

from __future__ import annotations

import atexit
import warnings
import weakref
from abc import ABC, abstractmethod
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

from reelrl.encode.codecs import trust
from reelrl.encode.codecs.backends import encoder_class
from reelrl.encode.codecs.control import Control, check_frame, check_openable
from reelrl.encode.codecs.deadline_thread import DeadlineThread
from reelrl.errors import ConfigError, EncoderError, EncoderTimeout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import ArrayLike

    from reelrl.content.frame import Frame
    from reelrl.encode.codecs.backends import Backend
    from reelrl.encode.codecs.packet import Packet
    from reelrl.encode.codecs.settings import EncoderSettings

_open_sessions: weakref.WeakSet[EncoderSession] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Encoder threads must be gone before the interpreter is: their log messages call into it."""
    for session in tuple(_open_sessions):
        session.close()


class Session(ABC):
    """Frames and decisions in, packets out; where the encoder lives is up to the subclass.

    `statistics` is the log of a first pass: it makes VBR two-pass, and tells libaom where the scene cuts are.
    Sessions may live side by side in one process; one session is for one thread at a time.
    """

    def __init__(self, settings: EncoderSettings) -> None:
        check_openable(settings)
        self.settings = settings
        self.sent = 0
        self._ready: list[Packet] = []
        self._taken = 0
        self._base_moved_in = -1  # mini-GOP that last had a base QP of its own
        self._flushed = False
        self._interrupted = ""  # what Ctrl+C came in between of

    def send(
        self,
        frame: Frame,
        *,
        qp: int | None = None,
        base_qp: int | None = None,
        offsets: ArrayLike | None = None,
        kbps: float | None = None,
    ) -> None:
        """Encode one frame.

        qp       quantiser of this very picture (sessions with `picture_qp`)
        base_qp  new base quantiser from this picture on (cqp), or CRF from the mini-GOP on that this picture ends
        offsets  QP steps per superblock in raster order; None sends no map, zeros send a map of zeros
        kbps     new target from this picture on (cbr)
        """
        check_frame(frame, self.settings)
        control = Control.checked(self.settings, qp, base_qp, offsets, kbps)
        if self._flushed:
            raise EncoderError("a frame was sent after flush; open a new session for a new stream")
        if base_qp is not None:
            self._check_base_again(base_qp)
        with self._step(f"code frame {self.sent}"):
            self._ready += self._encode(frame, control)
            self.sent += 1

    def receive(self, *, wait_for: int | None = None) -> list[Packet]:
        """Packets that are ready, in display order; with `wait_for`, up to that frame at least.

        In low delay the packet of a frame is ready as soon as `send` returns. In random access, name only a frame
        that the encoder can finish with what it has been sent.
        """
        if wait_for is not None and not 0 <= wait_for < self.sent:
            raise ConfigError(f"wait_for = {wait_for}, but {self.sent} frames were sent; send it first")
        if wait_for is not None and self._delivered <= wait_for:
            with self._step(f"deliver frame {wait_for}"):
                self._ready += self._wait(wait_for)
        ready, self._ready = self._ready, []
        self._taken += len(ready)
        return ready

    def flush(self) -> list[Packet]:
        """End the stream: every packet not yet received."""
        if not self._flushed:
            with self._step("finish"):
                self._ready += self._finish()
                self._flushed = True
        return self.receive()

    def encode(self, frames: Iterable[Frame]) -> Iterator[Packet]:
        """Send frames as they are and end the stream: packets in display order, as they come."""
        for frame in frames:
            self.send(frame)
            yield from self.receive()
        yield from self.flush()

    @abstractmethod
    def statistics(self) -> bytes:
        """The log of a first pass, after `flush`."""

    @abstractmethod
    def close(self) -> None:
        """Free the encoder, in mid-stream too. Closing twice does nothing."""

    @abstractmethod
    def _encode(self, frame: Frame, control: Control) -> list[Packet]: ...

    @abstractmethod
    def _wait(self, number: int) -> list[Packet]: ...

    @abstractmethod
    def _finish(self) -> list[Packet]: ...

    def _check_base_again(self, base_qp: int) -> None:
        """Refuse what locks SVT-AV1 up: in random access it has room for few moves of the base at a time.

        In crf a mini-GOP takes its CRF when its last picture is coded, which is the first of it in coding order: sent
        with another, half of the mini-GOP would have the one from before.
        """
        size, keyint = 2**self.settings.levels, self.settings.keyint
        place = self.sent % keyint if keyint > 0 else self.sent
        if self.settings.rate_control == "crf" and (place == 0 or place % size):
            raise ConfigError(
                f"base_qp = {base_qp} for frame {self.sent}: in crf send it with the last picture of a mini-GOP, "
                f"{size}, {2 * size} ... after a key frame"
            )
        mini_gop = -(-self.sent // size)  # the key frame stands alone, then come `size` frames each
        if not self.settings.low_delay and mini_gop == self._base_moved_in:
            raise ConfigError(
                f"base_qp = {base_qp} for frame {self.sent}, whose mini-GOP has one already; in random access "
                f"move the base once in {size} frames (1, {size + 1}, ...), or use picture_qp"
            )
        self._base_moved_in = mini_gop

    @contextmanager
    def _step(self, doing: str) -> Iterator[None]:
        """A step that Ctrl+C may end at any instant: its packets are then lost, and going on would leave a gap."""
        if self._interrupted:
            raise EncoderError(f"cannot {doing}: interrupted while it should {self._interrupted}; open another session")
        self._interrupted = doing
        try:
            yield
        except Exception:
            self._interrupted = ""  # an error, which the subclass remembers if it must
            raise
        self._interrupted = ""

    @property
    def _delivered(self) -> int:
        """Packets the encoder has given so far; they come in display order, without gaps."""
        return self._taken + len(self._ready)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class EncoderSession(Session):
    """A session in this process: the fast one."""

    def __init__(self, settings: EncoderSettings, *, statistics: bytes | None = None, first_pass: bool = False) -> None:
        super().__init__(settings)
        trust.ensure(settings.backend)
        self._failure: EncoderError | None = None
        self._encoder: Backend | None = None
        self._thread = DeadlineThread(f"encoder-{settings.backend}")
        self._closed = False
        kind, extra = encoder_class(settings.backend), {"first_pass": True} if first_pass else {}

        def start() -> None:
            self._encoder = kind(settings, statistics, **extra)

        try:
            self._call(start, "open")
        except BaseException:
            self.close()
            raise
        _open_sessions.add(self)

    def statistics(self) -> bytes:
        log: bytes = self._call(self._usable("give its log").statistics, "give its log")
        return log

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        _open_sessions.discard(self)
        # A thread that is lost holds the library's memory for good; there is nothing to be done about it from here.
        with suppress(EncoderTimeout):
            self._call(self._free, "close")
        self._thread.close()

    def _free(self) -> None:
        """On the thread, so that it also frees an encoder whose opening was interrupted here and went on there."""
        encoder, self._encoder = self._encoder, None
        if encoder is not None:
            encoder.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            warnings.warn("an EncoderSession was dropped without close(); use it with `with`", ResourceWarning, 2)
            self.close()

    def _encode(self, frame: Frame, control: Control) -> list[Packet]:
        encoder = self._usable("send a frame")
        packets: list[Packet] = self._call(lambda: encoder.encode(frame, control), f"code frame {self.sent}")
        return packets

    def _wait(self, number: int) -> list[Packet]:
        encoder = self._usable("receive")
        packets: list[Packet] = self._call(lambda: encoder.wait(number), f"deliver frame {number}")
        return packets

    def _finish(self) -> list[Packet]:
        packets: list[Packet] = self._call(self._usable("flush").finish, "finish")
        return packets

    def _usable(self, doing: str) -> Backend:
        if self._closed or self._encoder is None:
            raise EncoderError(f"cannot {doing}: the session is closed; open another")
        if self._failure is not None:
            raise EncoderError(f"cannot {doing}: the session failed before: {self._failure}") from self._failure
        return self._encoder

    def _call(self, job: Callable[[], Any], doing: str) -> Any:
        try:
            return self._thread.call(job, self.settings.call_deadline_s, doing)
        except EncoderTimeout as error:
            said = self._encoder.last_words() if self._encoder is not None else ""
            self._failure = EncoderTimeout(str(error), said)
            raise self._failure from None
        except EncoderError as error:
            self._failure = error
            raise
