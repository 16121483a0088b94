"""Decoding AV1 with dav1d, the independent witness of what an encoder wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import av
import numpy as np

from reelrl.content.frame import Frame
from reelrl.errors import ContentError

if TYPE_CHECKING:
    from collections.abc import Iterable


def decode(packets: Iterable[bytes]) -> list[Frame]:
    """The frames of an AV1 stream, in display order."""
    decoder: Any = av.CodecContext.create("libdav1d", "r")
    try:
        pictures = [picture for packet in packets for picture in decoder.decode(av.Packet(packet))]
        pictures += decoder.decode(None)
    except av.FFmpegError as error:
        raise ContentError(f"dav1d refuses the stream: {error}; it is cut or no AV1") from error
    return [Frame(np.ascontiguousarray(p.to_ndarray()).reshape(-1), p.width, p.height) for p in pictures]
