"""The encoder's side of the handshake: ask for a QP, tell what came of it.

    with HandshakeEncoder("rl_io", say=print) as trainer:
        qp = trainer.ask(request)         # the encoder's own base_qp when nobody answers
        ...code the mini-GOP...
        trainer.tell(feedback)

`AskTrainer` is the same as a controller: whoever codes by a controller can be steered through the folder.

An encoder has a stream to finish: whatever is wrong with the trainer or the folder, `ask` returns a QP.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import asdict
from typing import TYPE_CHECKING, Self

from reelrl.encode.handshake.folder import ENCODER, TRAINER, HandshakeFolder
from reelrl.encode.handshake.messages import Message, feedback_message, request_message
from reelrl.errors import ContentError, HandshakeError
from reelrl.runs.records import to_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from reelrl.encode.minigop.protocols import MiniGopEpisode, MiniGopFeedback, MiniGopRequest, Situation


class HandshakeEncoder:
    """One encode in the folder.

    session     names the encode; `RL_SESSION` or a new one. An encoder that was killed and is started again with the
                same session takes the answers it already got, and so comes back to where it was
    deadline_s  how long an answer may take
    say         gets a line whenever the encoder's own QP is used instead
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        session: str | None = None,
        deadline_s: float = 30.0,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.session = session or os.environ.get("RL_SESSION") or secrets.token_hex(8)
        self.deadline_s = deadline_s
        self.fallbacks = 0
        self._say = say or (lambda _line: None)
        self._folder = HandshakeFolder(folder)
        self._lock = self._folder.lock(ENCODER)
        self._sweep()

    def ask(self, request: MiniGopRequest, **more: object) -> int:
        """The QP to base the mini-GOP on; `more` fields travel along in the request."""
        try:
            return self._answer(request, more)
        except (ContentError, HandshakeError) as error:
            self.fallbacks += 1
            self._say(f"mini-GOP {request.mg} takes the encoder's own QP {request.base_qp}: {error}")
            return request.base_qp

    def tell(self, feedback: MiniGopFeedback, **more: object) -> None:
        try:
            self._folder.write(feedback.mg, "fb", feedback_message(feedback, session=self.session, **more))
        except ContentError as error:
            self._say(f"mini-GOP {feedback.mg} gives no feedback: {error}")

    def close(self) -> None:
        self._folder.close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answer(self, request: MiniGopRequest, more: dict[str, object]) -> int:
        # A session that is taken up again finds answers of its own; others come from a trainer that is behind.
        answered = self._folder.read(request.mg, "qp")
        if answered is not None and not self._is_ours(answered):
            self._folder.remove(request.mg, "qp")
            answered = None
        if answered is None:
            answered = self._wait(request, more)
        if not self._is_ours(answered):
            raise HandshakeError(f"the answer is for session {answered['session']:.60}, not for {self.session}")
        qp: int = answered["qp"]
        return qp

    def _wait(self, request: MiniGopRequest, more: dict[str, object]) -> Message:
        # Without a trainer that is seen to be there, one deadline is enough for the whole stream.
        waits = not self.fallbacks or self._folder.someone_is(TRAINER)
        deadline_s = self.deadline_s if waits else 0.0
        self._folder.write(request.mg, "rq", request_message(request, session=self.session, **more))
        answered = self._folder.wait(request.mg, "qp", deadline_s)
        if answered is None:
            who = "the trainer did not answer" if self._folder.someone_is(TRAINER) else "no trainer answered"
            raise HandshakeError(f"{who} within {deadline_s:g} s")
        return answered

    def _is_ours(self, answered: Message) -> bool:
        """Who echoes the session is held to it; who does not is trusted."""
        return bool(answered.get("session", self.session) == self.session)

    def _sweep(self) -> None:
        """Clear what an earlier encode left; the files of this very session are the way back to where it was."""
        try:
            first = self._folder.read(0, "rq", final=True)
        except HandshakeError:
            first = None
        if first is None or first.get("session") != self.session:
            self._folder.clear()


class AskTrainer:
    """A controller whose decisions are made on the other side of the folder."""

    privileged = False

    def __init__(self, trainer: HandshakeEncoder, **facts: object) -> None:
        self.trainer = trainer
        self._facts = facts  # travel with every request
        self._first: dict[str, object] = {}
        self._reported = 0

    def reset(self, seed: int, episode: MiniGopEpisode) -> None:  # noqa: ARG002 - chance is the trainer's
        self._first = {"episode": to_plain(asdict(episode))}
        self._reported = 0

    def act(self, situation: Situation) -> float:
        self.tell(situation.history)
        request, first, self._first = situation.request, self._first, {}
        return self.trainer.ask(request, **self._facts, **first) - request.base_qp

    def tell(self, history: Sequence[MiniGopFeedback]) -> None:
        """Pass on what became known; once more after the last decision."""
        for feedback in history[self._reported :]:
            self.trainer.tell(feedback)
        self._reported = len(history)
