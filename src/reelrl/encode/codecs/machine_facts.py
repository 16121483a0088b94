"""What decides the bytes of an encode on this machine: each encoder's build, and what it makes of four frames."""

from __future__ import annotations

import hashlib
from fractions import Fraction

import numpy as np

from reelrl import names
from reelrl.content.clip import Clip
from reelrl.content.frame import Frame
from reelrl.encode.codecs.backends import capabilities
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.codecs.whole_clip import encode_clip
from reelrl.errors import EncoderMissing


def encoder_facts() -> dict[str, str]:
    """By backend: its version and the hash of a sample encode, or that it is missing and why.

    The sample tells builds apart that call themselves alike, and processors on which one build gives other bytes.
    """
    facts = {}
    for backend in names.BACKENDS:
        try:
            facts[backend] = f"{capabilities(backend).version}, sample {_sample(backend)}"
        except EncoderMissing as error:
            facts[backend] = f"missing ({str(error).partition(';')[0]})"
    return facts


def _sample(backend: str) -> str:
    digest = hashlib.sha256()
    for packet in encode_clip(_clip(), EncoderSettings(backend=backend, picture_qp=True)).packets:
        digest.update(packet.data)
    return digest.hexdigest()[:16]


def _clip() -> Clip:
    """A moving pattern with some noise: enough for motion search, transforms and filters to take part."""
    rng = np.random.default_rng(0)
    width, height = 128, 96
    across, down = np.arange(width) // 3, np.arange(height)[:, None] // 2
    frames = []
    for number in range(4):
        frame = Frame.empty(width, height)
        noise = rng.integers(0, 24, (height, width))
        frame.y[:] = ((across + 5 * number) * (down + 1) % 197 + noise).astype(np.uint8)
        frame.u[:], frame.v[:] = 128 + 4 * number, 110
        frames.append(frame)
    return Clip.from_frames(frames, fps=Fraction(25), name="sample")
