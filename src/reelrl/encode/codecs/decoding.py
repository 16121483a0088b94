"""Decoding AV1 with dav1d, the independent witness of what an encoder wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import av

from reelrl.content.read.container import frame_of
from reelrl.errors import ContentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from reelrl.content.frame import Frame


def decode(packets: Iterable[bytes]) -> list[Frame]:
    """The frames of an AV1 stream, in display order."""
    return list(decoded(packets))


def decoded(packets: Iterable[bytes]) -> Iterator[Frame]:
    """The same, one by one."""
    decoder: Any = av.CodecContext.create("libdav1d", "r")
    try:
        for packet in (*packets, None):
            for picture in decoder.decode(None if packet is None else av.Packet(packet)):
                yield frame_of(picture)
    except av.FFmpegError as error:
        raise ContentError(f"dav1d refuses the stream: {error}; it is cut or no AV1") from error
