"""The self-test passes on what is installed and notices a library that lies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from reelrl.encode import EncoderSession
from reelrl.encode.codecs import selftest
from reelrl.encode.codecs.backends import encoder_class
from tests.encode.makers import BACKENDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from reelrl.content.frame import Frame
    from reelrl.encode.codecs.control import Control
    from reelrl.encode.codecs.packet import Packet

each_backend = pytest.mark.parametrize("backend", BACKENDS)


@each_backend
def test_the_installed_libraries_pass_in_seconds(backend: str) -> None:
    verdict = selftest.run(backend)
    assert verdict.ok, verdict.detail
    assert verdict.seconds < 5


def wrong_recon(packet: Packet) -> None:
    assert packet.recon is not None
    packet.recon.data[5] ^= 1


def wrong_sse(packet: Packet) -> None:
    assert packet.sse is not None
    packet.sse = (packet.sse[0] + 1, *packet.sse[1:])


def wrong_qp(packet: Packet) -> None:
    packet.qp += 1


@each_backend
@pytest.mark.parametrize(
    ("damage", "detail"),
    [
        (wrong_recon, "reconstruction of frame 0 differs from the decoder's"),
        (wrong_sse, "error of frame 0 is"),
        (wrong_qp, "asked for QP 30, 31"),
    ],
)
def test_a_library_that_lies_is_found_out(
    backend: str, damage: Callable[[Packet], None], detail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = encoder_class(backend)

    class Lying(kind):  # type: ignore[misc, valid-type]
        def encode(self, frame: Frame, control: Control) -> list[Packet]:
            packets: list[Packet] = super().encode(frame, control)
            for packet in packets:
                damage(packet)
            return packets

    monkeypatch.setattr("reelrl.encode.codecs.session.encoder_class", lambda _name: Lying)
    verdict = selftest.run(backend)
    assert not verdict.ok
    assert detail in verdict.detail


@each_backend
def test_a_library_that_ignores_maps_is_found_out(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    send = EncoderSession.send

    def without_map(self: EncoderSession, frame: Frame, *, offsets: Any = None, **decision: Any) -> None:
        send(self, frame, **decision)

    monkeypatch.setattr(EncoderSession, "send", without_map)
    verdict = selftest.run(backend)
    assert not verdict.ok
    assert "map changed nothing" in verdict.detail
