"""Four frames through a real encoder, of 8 and of 10 bits: does this library do what our declarations of it say?

A library whose structures moved would give wrong numbers rather than an error. So the reconstruction is compared
with what an independent decoder makes of the bytes, the reported error with one computed here, and a map must change
the stream.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from reelrl.content.clip import Clip
from reelrl.content.frame import Frame
from reelrl.content.quality import frame_sse
from reelrl.encode.codecs.backends import capabilities
from reelrl.encode.codecs.decoding import decode
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.codecs.whole_clip import Encoded, encode_clip
from reelrl.errors import EncoderMissing, ReelError

if TYPE_CHECKING:
    from reelrl.encode.codecs.whole_clip import Decision

_WIDTH, _HEIGHT = 128, 96


@dataclass(frozen=True)
class SelfTest:
    """The verdict, what was found, and how long it took."""

    ok: bool
    detail: str
    seconds: float


def run(backend: str) -> SelfTest:
    """Try a backend. Failures are reported, not raised, except that EncoderMissing stays what it is."""
    started = time.perf_counter()
    try:
        ok, detail = _verdict(backend)
    except EncoderMissing:
        raise
    except ReelError as error:
        ok, detail = False, str(error)
    return SelfTest(ok, detail, time.perf_counter() - started)


def _verdict(backend: str) -> tuple[bool, str]:
    clip, settings = _clip(), EncoderSettings(backend=backend, picture_qp=True)
    plain = encode_clip(clip, settings)
    rng = np.random.default_rng(1)
    maps = [rng.integers(-3, 4, clip.superblock_count) for _ in range(clip.frame_count)]

    def decide(number: int, _frame: Frame) -> Decision:
        return {"qp": 30 + number, "offsets": maps[number]}

    mapped = encode_clip(clip, settings, decide)
    streams = {"plain": plain, "mapped": mapped}
    if 10 in capabilities(backend).bit_depths:
        streams["10-bit"] = encode_clip(clip.at_depth(10), settings)
    for name, coded in streams.items():
        if fault := _fault(coded):
            return False, f"{name} stream: {fault}"
    if [p.qp for p in mapped.packets] != [30 + i for i in range(clip.frame_count)]:
        return False, f"asked for QP 30, 31, ... and got {[p.qp for p in mapped.packets]}"
    uniform = encode_clip(clip, settings, lambda number, _: {"qp": 30 + number})
    if b"".join(p.data for p in mapped.packets) == b"".join(p.data for p in uniform.packets):
        return False, "a superblock map changed nothing"
    return True, "reconstruction equals the decoder's, errors are exact, QPs and maps are obeyed"


def _fault(coded: Encoded) -> str | None:
    clip, decoded = coded.clip, decode([packet.data for packet in coded.packets])
    if len(decoded) != clip.frame_count:
        return f"{clip.frame_count} frames went in, {len(decoded)} came out of the decoder"
    for frame, shown, packet in zip(clip, decoded, coded.packets, strict=True):
        if packet.recon != shown:
            return f"reconstruction of frame {packet.number} differs from the decoder's"
        if packet.sse != tuple(frame_sse(frame, shown)):
            return f"error of frame {packet.number} is {packet.sse}, computed {tuple(frame_sse(frame, shown))}"
    return None


def _clip() -> Clip:
    """A moving texture, made here so that the test needs nothing but an encoder."""
    rows, columns = np.mgrid[0:_HEIGHT, 0:_WIDTH]
    frames = []
    for number in range(4):
        frame = Frame.empty(_WIDTH, _HEIGHT)
        frame.y[:] = (columns + 2 * number) * (rows + 7) // 9 % 200 + 20
        frame.u[:], frame.v[:] = 110 + number, 140
        frames.append(frame)
    return Clip.from_frames(frames, fps=Fraction(30), name="self-test")
