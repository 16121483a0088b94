"""The trainer's side of the handshake: an encoder behind files in a folder, as a source of mini-GOPs.

    command = ["reel-encoder", "--input", "in.y4m", "--o", "out.ivf", "--bitrate", "500", "--rl-dir", "{rl_dir}"]
    with HandshakeSource("rl_io", command) as source:
        run_controller(source, controller, seed=0)

Without a command the encoder is somebody else's to start, before or after; a trainer that is started anew then goes
on with it where the last one stopped.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any, Self

from reelrl.encode.handshake.encoder_process import EncoderProcess
from reelrl.encode.handshake.episode import read_episode
from reelrl.encode.handshake.folder import ENCODER, TRAINER, HandshakeFolder, pause_s
from reelrl.encode.handshake.messages import SCHEMA, Message, decided_qp, file_name, read_feedback, read_request
from reelrl.errors import EncoderError, EncoderTimeout, HandshakeError, RunError
from reelrl.storage.files import writable_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reelrl.encode.codecs.packet import Packet
    from reelrl.encode.minigop.protocols import MiniGopFeedback, MiniGopRequest

_RESTART_S = 30.0  # an encoder that was seen to go may be started again; longer than that nobody waits for it
_LEAVING_S = 5.0  # the encoder of a trainer that was killed may still be on its way out
_DEFAULT_FACTS: dict[str, Any] = {
    "clip": "",
    "width": 0,
    "height": 0,
    "fps": 30,
    "goal": "vbr",
    "buffer_s": 1.0,
    "feedback_lag": 0,
    "passes": 0,
}


class HandshakeSource:
    """One encode by a foreign program; see `MiniGopSource`.

    silence_s  how long the encoder may say nothing: it codes a mini-GOP in that time, and begins and ends
    facts      of the episode, for encoders whose requests do not tell them: clip, width, height, fps, kbps, ...
    """

    packets: tuple[Packet, ...] = ()  # the foreign program keeps its stream
    sent_qps: tuple[int, ...] = ()

    def __init__(
        self, folder: str | Path, command: Sequence[str] | None = None, *, silence_s: float = 600.0, **facts: Any
    ) -> None:
        self._folder = HandshakeFolder(writable_folder(folder).absolute())
        self._silence_s = silence_s
        self._session: str | None = None
        self._process: EncoderProcess | None = None
        self._encoder_was_there = False
        self._asked: MiniGopRequest | None = None  # and waiting for `reply`
        self._deltas: dict[int, float] = {}  # of mini-GOPs whose feedback is owed
        self._known: list[tuple[Message, float]] = []
        self._next, self._frames, self._last = 0, 0, False
        self._facts = _DEFAULT_FACTS | facts
        self.request_message: Message = {}  # as it came, with fields that we do not know
        self._lock = self._folder.lock(TRAINER)
        try:
            self._clear_stale(rejoin=command is None)
            if command is not None:
                session = {"RL_SESSION": secrets.token_hex(8)}
                self._process = EncoderProcess(command, self._folder.path, session)
            self._receive()
        except BaseException:
            self.close()
            raise

    def request(self) -> MiniGopRequest | None:
        self._receive()
        return self._asked

    def reply(self, delta: float) -> None:
        if self._asked is None:
            raise EncoderError("a delta was given, but the encoder has not asked; call request() first")
        mg, qp = self._asked.mg, decided_qp(self._asked.base_qp, delta)
        message: Message = {"qp": qp, "mg": mg, "schema": SCHEMA}
        if self._session is not None:
            message["session"] = self._session
        self._folder.write(mg, "qp", message)
        self._deltas[mg], self._asked = delta, None

    def feedback(self) -> list[MiniGopFeedback]:
        self._collect(wait=self._last and self._asked is None)
        known, self._known = self._known, []
        luma_pixels = self.episode.width * self.episode.height
        return [read_feedback(message, delta, luma_pixels) for message, delta in known]

    def close(self) -> None:
        process, self._process = self._process, None
        try:
            if process is not None:
                process.close()
        finally:
            self._folder.close()
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- receiving -----------------------------------------------------------------------------------------------

    def _receive(self) -> None:
        """The next request that nobody answered yet, or the end of the stream."""
        while self._asked is None and not self._last:
            message = self._wait(self._next, "rq")
            self._collect(wait=False)
            if message is None:
                self._finish_early()
                return
            self._check_session(message, "rq")
            request = read_request(message, self._frames)
            if self._next == 0:
                self.episode = read_episode(message, self._facts)
            self._check_plan(request)
            self.request_message, self._next = message, self._next + 1
            self._frames = request.first_frame + request.frames
            self._last = request.frames_left <= request.frames
            # By a trainer before us, or by the encoder itself: what is settled becomes part of our history.
            settled = self._folder.read(request.mg, "qp") or self._folder.read(request.mg, "fb")
            if settled is None:
                self._asked = request
            else:
                self._deltas[request.mg] = settled["qp"] - request.base_qp

    def _collect(self, *, wait: bool) -> None:
        """Feedback that is there; with `wait`, all that is owed, and the encoder's end."""
        for mg in sorted(self._deltas):
            message = self._wait(mg, "fb") if wait else self._folder.read(mg, "fb")
            if message is None and wait:
                raise self._failure(f"the encoder gave no feedback: {file_name(mg, 'fb')} is missing")
            if message is None:
                return
            self._check_session(message, "fb")
            self._known.append((message, self._deltas.pop(mg)))
        if wait and self._process is not None:
            self._process.wait(self._silence_s)
            if not self._process.ended_well:
                raise self._failure("the encoder gave all feedback, but did not end well")

    def _finish_early(self) -> None:
        """No request came. An encoder that ended well has simply coded less than it announced."""
        if self._next == 0 or self._process is None or not self._process.ended_well:
            raise self._failure(f"the encoder did not ask: {file_name(self._next, 'rq')} is missing")
        self._last = True

    def _check_plan(self, request: MiniGopRequest) -> None:
        plan = self.episode.plan
        if plan is not None and request.mg >= len(plan):
            raise HandshakeError(
                f"{file_name(request.mg, 'rq')} comes after the {len(plan)} mini-GOPs that the encoder planned; "
                "plan all of them, or leave the plan out"
            )

    def _check_session(self, message: Message, kind: str) -> None:
        session = message.get("session", self._session)
        if kind == "rq" and self._session is None:
            self._session = session
        if session != self._session:
            name = file_name(message["mg"], kind)
            raise HandshakeError(
                f"{name} is of session {session!s:.60}, this encode is {self._session!s:.60}: another encoder "
                f"writes to {self._folder.path}; give each a folder of its own"
            )

    def _wait(self, mg: int, kind: str) -> Message | None:
        return self._folder.wait(mg, kind, self._silence_s, self._is_over)

    # -- the other side's state ----------------------------------------------------------------------------------

    def _is_over(self, waited_s: float) -> bool:
        """Whether there is nothing more to wait for, however patient we are."""
        if self._process is not None:
            return self._process.ended
        if waited_s < 1.0:
            return False  # not worth a look yet
        is_there = self._folder.someone_is(ENCODER)
        self._encoder_was_there |= is_there
        gone = self._encoder_was_there and not is_there
        return gone and waited_s >= _RESTART_S

    def _failure(self, what: str) -> EncoderError:
        if self._process is None:
            gone = self._encoder_was_there and not self._folder.someone_is(ENCODER)
            why = "its process is gone" if gone else f"silent for {self._silence_s:g} s"
            return EncoderTimeout(f"{what}; {why}; start it on {self._folder.path}")
        words = self._process.last_words()
        if self._process.ended:
            return EncoderError(f"{what}; {self._process.program} {self._process.how_it_ended()}", words)
        return EncoderTimeout(
            f"{what}; {self._process.program} was silent for {self._silence_s:g} s and is ended", words
        )

    def _clear_stale(self, *, rejoin: bool) -> None:
        """Remove what an earlier encode left; or, where its encoder is there and waits, leave all and `rejoin` it."""
        start_s = time.monotonic()
        while True:
            waited_s = time.monotonic() - start_s
            try:
                nobody = self._folder.lock(ENCODER)
                break
            except RunError:
                if rejoin and self._folder.someone_is(ENCODER):
                    self._encoder_was_there = True
                    return
                if waited_s > _LEAVING_S:
                    raise
            time.sleep(pause_s(waited_s))
        self._folder.clear()
        nobody.release()
