"""An open libaom encoder: pictures in, packets and reconstructions out, its errors in its own words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.encode.codecs.aom import api
from reelrl.errors import EncoderError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reelrl.content.frame import Frame, Plane

ffi = api.ffi


@dataclass(frozen=True, slots=True)
class AomPacket:
    """What libaom has ready: a temporal unit with the number of the frame it shows, or first-pass statistics."""

    data: bytes
    number: int
    key: bool
    statistics: bool


class AomContext:
    """One stream inside libaom; all calls come from one thread. `values` are fields of the configuration."""

    def __init__(self, values: Mapping[str, int], statistics: bytes | None = None) -> None:
        self._lib = api.load().lib
        self._pointer: Any = None
        given = dict(values)
        # libaom reads the statistics where they lie, for as long as the stream is open.
        self._statistics = None if statistics is None else np.frombuffer(statistics, np.uint8).copy()
        if self._statistics is not None:
            given["statistics"] = int(ffi.cast("uintptr_t", ffi.from_buffer(self._statistics)))
            given["statistics_bytes"] = self._statistics.size
        pointer, config = ffi.new("uint8_t[]", api.CONTEXT_BYTES), api.configuration(self._lib, **given)
        status = self._lib.aom_codec_enc_init_ver(
            pointer, self._lib.aom_codec_av1_cx(), ffi.from_buffer(config), 0, api.ABI
        )
        self._pointer = pointer
        self._image = ffi.new("uint8_t[]", api.IMAGE_BYTES)
        try:
            self.check(status, "open")
        except EncoderError:
            self.close()
            raise

    def control(self, number: int, value: Any) -> None:
        """A control by its number; `value` is a whole number, or what the library fills or keeps."""
        argument = ffi.cast("int", value) if isinstance(value, int) else value
        self.check(self._lib.aom_codec_control(self._pointer, number, argument), f"take control {number}")

    def option(self, name: str, text: str) -> None:
        self.check(
            self._lib.aom_codec_set_option(self._pointer, name.encode(), text.encode()), f"take {name} = {text!r}"
        )

    def encode(self, frame: Frame | None, number: int) -> None:
        """Hand over a frame; None asks for what is held back."""
        if frame is None:
            self.check(self._lib.aom_codec_encode(self._pointer, ffi.NULL, 0, 1, 0), "end the stream")
            return
        pixels = ffi.from_buffer("uint8_t[]", frame.data)
        self._lib.aom_img_wrap(self._image, api.I420, frame.width, frame.height, 1, pixels)
        self.check(self._lib.aom_codec_encode(self._pointer, self._image, number, 1, 0), f"take frame {number}")

    def packets(self) -> list[AomPacket]:
        """All that is ready."""
        iterator, ready = ffi.new("void**"), []
        while (packet := self._lib.aom_codec_get_cx_data(self._pointer, iterator)) != ffi.NULL:
            data = bytes(ffi.buffer(packet.data, packet.size))
            if packet.kind == api.STATISTICS_PACKET:
                ready.append(AomPacket(data, -1, key=False, statistics=True))
            elif packet.kind == api.FRAME_PACKET:
                key = bool(packet.flags & api.KEY_FLAG)
                ready.append(AomPacket(data, int(packet.pts), key=key, statistics=False))
        return ready

    def shown(self, width: int, height: int) -> list[Plane]:
        """Views of the planes of the frame shown last, valid until the next call."""
        picture = self._lib.aom_codec_get_preview_frame(self._pointer)
        if picture == ffi.NULL:
            raise EncoderError("libaom gave no reconstruction", self.last_words())
        return api.image_planes(picture, width, height, 8)

    def check(self, status: int, doing: str) -> None:
        if status:
            raise EncoderError(f"libaom could not {doing} (status {status})", self.last_words())

    def last_words(self) -> str:
        if self._pointer is None:
            return ""
        messages = (self._lib.aom_codec_error(self._pointer), self._lib.aom_codec_error_detail(self._pointer))
        return "\n".join(ffi.string(text).decode("utf-8", "replace") for text in messages if text != ffi.NULL)

    def close(self) -> None:
        if self._pointer is not None:
            self._lib.aom_codec_destroy(self._pointer)
            self._pointer = None
