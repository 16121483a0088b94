"""Handshake folders: messages that are broken, missing or no files, read by the trainer and by the encoder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from reelrl.encode.handshake.encoder_side import HandshakeEncoder
from reelrl.encode.handshake.folder import ENCODER, HandshakeFolder
from reelrl.encode.handshake.messages import feedback_message, request_message
from reelrl.encode.handshake.trainer_side import HandshakeSource
from reelrl.encode.minigop.controllers.rules import CrfReplay
from reelrl.encode.minigop.protocols import MiniGopFeedback, MiniGopRequest
from reelrl.encode.minigop.run import run_controller
from tests.campaign.mutations import mutated_json, replace_by_something_else

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from random import Random

    from tests.campaign.trial import Feed

_SILENCE_S = 0.3
MINIGOPS = 3


def make_sources(folder: Path) -> None:
    for mg in range(MINIGOPS):
        (folder / f"mg{mg:04d}_rq.json").write_text(json.dumps(request_message(request(mg), session="s")))
        told = MiniGopFeedback(mg, 40, 9000, 38.5, mg == MINIGOPS - 1, 8, sse_y=77)
        (folder / f"mg{mg:04d}_fb.json").write_text(json.dumps(feedback_message(told, session="s")))
        (folder / f"mg{mg:04d}_qp.json").write_text(json.dumps({"qp": 40, "mg": mg, "schema": 1, "session": "s"}))


def request(mg: int) -> MiniGopRequest:
    left = 8 * (MINIGOPS - mg)
    return MiniGopRequest(mg, 0, 8 * mg, 8, 40, (40,) * 8, 1000.0 * left, left, {"intra": 1.5})


def break_one(sources: Path, folder: Path, outside: Path, chance: Random) -> Iterator[Feed]:
    for_trainer, for_encoder = folder / "trainer", folder / "encoder"
    for target, kinds in ((for_trainer, ("rq", "fb")), (for_encoder, ("qp",))):
        target.mkdir()
        for kind in kinds:
            for source in sorted(sources.glob(f"*_{kind}.json")):
                (target / source.name).write_bytes(source.read_bytes())
        for path in chance.sample(sorted(target.iterdir()), chance.choice([1, 1, 2])):
            if chance.random() < 0.2:
                replace_by_something_else(path, outside, chance)
            else:
                path.write_bytes(mutated_json(path.read_text(), chance))
        if chance.random() < 0.1:
            replace_by_something_else(target / chance.choice([".lock", ".encoder.lock"]), outside, chance)
        if chance.random() < 0.1:
            replace_by_something_else(target / "mg0000_qp.json", outside, chance)
    yield "trainer", lambda: _train(for_trainer)
    yield "encoder", lambda: _encode(for_encoder)


def _train(folder: Path) -> None:
    """The messages of an encoder that is there, and has said all it will say."""
    lock = HandshakeFolder(folder).lock(ENCODER)
    try:
        with HandshakeSource(folder, silence_s=_SILENCE_S, width=64, height=64, fps=25) as source:
            run_controller(source, CrfReplay(1.0))
    finally:
        lock.release()


def _encode(folder: Path) -> None:
    """Answers of a trainer: an encoder finishes its stream, whatever they say."""
    with HandshakeEncoder(folder, session="s", deadline_s=_SILENCE_S) as encoder:
        for mg in range(MINIGOPS):
            qp = encoder.ask(request(mg))
            if not 1 <= qp <= 63:
                raise AssertionError(f"the QP is {qp}")
            encoder.tell(MiniGopFeedback(mg, qp, 9000, 38.5, mg == MINIGOPS - 1, 8))
