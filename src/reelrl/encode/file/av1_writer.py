"""RGB pictures to an AV1 file, through the encoder session: small, with a key frame at regular places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from reelrl.content.colour import frame_from_rgb
from reelrl.content.write.video import write_bitstream
from reelrl.encode.codecs.session import EncoderSession
from reelrl.encode.codecs.settings import EncoderSettings

if TYPE_CHECKING:
    from fractions import Fraction
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

KEY_INTERVAL = 16
"""Frames from one key frame to the next: what a reader decodes at most to show any one of them."""


def recording_settings(width: int, height: int, fps: Fraction, *, recon: bool = False) -> EncoderSettings:
    """How pictures are recorded: the views of a game at about 35 dB in luma."""
    # Preset 12 takes 0.7 times as long as 10, and no more bytes at this QP.
    return EncoderSettings(
        width=width, height=height, fps=fps, preset=12, qp=30, keyint=KEY_INTERVAL, recon=recon, psnr=False
    )


class Av1Writer:
    """Writes uint8 RGB pictures (height, width, 3) with even sides; the file appears at `close`."""

    suffix = ".mp4"

    def __init__(self, path: Path, width: int, height: int, fps: Fraction) -> None:
        self._path = path
        self._session = EncoderSession(recording_settings(width, height, fps))
        self._packets: list[bytes] = []
        self._closed = False

    def write(self, picture: NDArray[np.uint8]) -> None:
        self._session.send(frame_from_rgb(picture))
        self._packets += [packet.data for packet in self._session.receive()]

    def close(self) -> None:
        """Finish the file; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        settings = self._session.settings
        with self._session:  # closed whether or not it can finish
            self._packets += [packet.data for packet in self._session.flush()]
        write_bitstream(self._path, self._packets, settings.width, settings.height, settings.fps)

    def abort(self) -> None:
        """Let go of a file that nobody wants any more."""
        self._closed = True
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()
