"""What an encoder gives back for one displayed frame."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from reelrl.content.frame import Frame
from reelrl.content.quality import psnr_from_sse, sse_in_8_bits


class FrameType(IntEnum):
    KEY = 0
    INTER = 1
    NON_REFERENCE = 2


@dataclass(slots=True)
class Packet:
    """One temporal unit: the bytes a player needs to show frame `number`, and what the encoder did.

    number         place in display order, from 0
    coding_order   place in decoding order, from 0
    picture_bytes  bytes of this picture alone: in random access a unit also carries pictures shown later,
                   and those come as five-byte notes; summed over a stream both ways give the same total,
                   but for headers between pictures
    qp             quantiser of the picture; `average_qp` also counts the encoder's own block deltas
    sse, ssim      per plane Y, Cb, Cr against the source; None unless the settings ask for them; `sse` is in the
                   stream's own levels, of `bit_depth` bits
    """

    data: bytes
    number: int
    frame_type: FrameType
    layer: int
    qp: int
    average_qp: int
    luma_pixels: int
    coding_order: int
    picture_bytes: int
    sse: tuple[int, int, int] | None = None
    ssim: tuple[float, float, float] | None = None
    recon: Frame | None = None
    bit_depth: int = 8

    @property
    def size(self) -> int:
        """Bytes of the temporal unit."""
        return len(self.data)

    @property
    def psnr(self) -> tuple[float, float, float]:
        """PSNR of Y, Cb, Cr in dB, at most 100."""
        chroma, depth = self.luma_pixels // 4, self.bit_depth
        y, cb, cr = self._errors
        return (
            psnr_from_sse(y, self.luma_pixels, depth=depth),
            psnr_from_sse(cb, chroma, depth=depth),
            psnr_from_sse(cr, chroma, depth=depth),
        )

    @property
    def luma_sse_in_8_bits(self) -> int:
        """Squared luma error in 8-bit levels: what clips of any depth are compared by."""
        return sse_in_8_bits(self._errors[0], self.bit_depth)

    @property
    def _errors(self) -> tuple[int, int, int]:
        if self.sse is None:
            raise ValueError("this packet carries no errors to tell a PSNR from; encode with psnr=True")
        return self.sse
