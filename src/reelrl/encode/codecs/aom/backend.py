"""libaom as a `Backend`: low delay, with an exact quantiser per picture and per superblock.

The encoder asks for its decisions through a callback while it codes a frame. With no lag the decision is known
before the frame is handed over, so the callback only copies it: no thread waits for another.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.content.frame import Frame
from reelrl.content.quality import sse
from reelrl.encode.codecs.aom import api
from reelrl.encode.codecs.backends import Capabilities, frames_covered
from reelrl.encode.codecs.control import Control
from reelrl.encode.codecs.packet import FrameType, Packet
from reelrl.encode.codecs.settings import QINDEX_PER_QP, EncoderSettings, qindex_of
from reelrl.errors import EncoderError

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

ffi = api.ffi

FASTEST = 6
LIVE_FRAMES = 20_000
"""Frames a session may code when nobody gave it statistics: eleven minutes at 30 frames/s."""
_NOT_SUMMED = 27  # the one field of the closing record that is no sum
WIDEST_OFFSET = 24
"""QP steps: libaom takes any quantiser for a superblock; beyond this no weighing of pixels pays."""

_END_USAGE = {"cqp": api.CONSTANT_QUALITY, "crf": api.CONSTANT_QUALITY, "vbr": api.VBR, "cbr": api.CBR}


class Aom:
    """One libaom stream.

    Quantiser control works only in a second pass, so it needs first-pass `statistics`: of the clip itself where it
    is known beforehand (the encoder then finds scene cuts), else those of a still picture.
    """

    _USAGE = api.GOOD_QUALITY
    _BY_CALLBACK = True  # quantisers are asked for while a frame is coded
    _PRESETS = (0, FASTEST)

    def __init__(self, settings: EncoderSettings, statistics: bytes | None = None, *, first_pass: bool = False) -> None:
        self._lib = api.load().lib
        self._settings = settings
        self._first_pass = first_pass
        self._decision = _Decision(settings)
        self._sent = 0
        self._qp = settings.qp
        self._log = bytearray()
        self._context: Any = None
        self._steered = self._BY_CALLBACK and settings.rate_control == "cqp" and not first_pass
        deep = settings.bit_depth > 8
        self._image_format, self._flags = (api.I420_HIGH_DEPTH, api.HIGH_DEPTH_FLAG) if deep else (api.I420, 0)
        if self._steered and statistics is None:
            statistics = still_statistics(settings.width, settings.height, settings.fps, settings.bit_depth)
        self._frames_allowed = frames_covered(statistics, api.STATISTICS_RECORD)
        self._statistics = None if statistics is None else np.frombuffer(statistics, np.uint8).copy()
        self._open()

    @staticmethod
    def capabilities() -> Capabilities:
        library = api.load()
        return Capabilities(
            backend="aom",
            library=library.path,
            version=library.version,
            superblock_offsets=True,
            picture_qp=True,
            base_qp_change=True,
            random_access=False,
            quality=True,
            notes=("superblock offsets are true delta-q: exact, lambda follows, an all-zero map costs nothing",),
            title="libaom",
            maps_in=("cqp",),
            exact_maps=True,
            largest_offset=WIDEST_OFFSET,
            quantisers_need_statistics=True,
            first_pass_in=("cqp", "crf", "vbr", "cbr"),
            statistics_depend_on=("threads",),
            bit_depths=(8, 10),
            # Some of these may turn out to change nothing in low delay.
            own_modes=("crf", *(f"crf:aq-mode={n}" for n in (1, 2, 3)), *(f"crf:deltaq-mode={n}" for n in (2, 3))),
        )

    @staticmethod
    def refusal(settings: EncoderSettings) -> str | None:
        if not settings.low_delay:
            return "the aom backend codes low delay only: set structure=low_delay, or use backend=svtav1"
        if settings.levels:
            return f"hierarchical_levels = {settings.levels}: the aom backend has none; leave it at 0"
        if settings.picture_qp and settings.rate_control != "cqp":
            return f"picture_qp with rate_control = {settings.rate_control}: libaom takes picture QPs in cqp only"
        return None

    def _open(self) -> None:
        s = self._settings
        values = {
            "threads": s.threads,
            "width": s.width,
            "height": s.height,
            "timebase_num": s.fps.denominator,
            "timebase_den": s.fps.numerator,
            "which_pass": self._pass(),
            "lag_in_frames": 0,
            "rate_control": _END_USAGE[s.rate_control],
            "kf_max_dist": 9999 if s.keyint == -1 else s.keyint,
            "bit_depth": s.bit_depth,
            "input_bit_depth": s.bit_depth,
        }
        if s.steers_rate:
            values["target_kbps"] = round(s.target_kbps or 0)
        values |= {name: int(text) for name, text in s.options.items() if name in api.BUFFER_FIELDS}
        if self._statistics is not None:
            values["statistics"] = int(ffi.cast("uintptr_t", ffi.from_buffer(self._statistics)))
            values["statistics_bytes"] = self._statistics.size
        context, config = ffi.new("uint8_t[]", api.CONTEXT_BYTES), api.configuration(self._lib, self._USAGE, **values)
        status = self._lib.aom_codec_enc_init_ver(
            context, self._lib.aom_codec_av1_cx(), ffi.from_buffer(config), self._flags, api.ABI
        )
        self._context = context
        try:
            self._check(status, "open")
            self._set_controls()
        except EncoderError:
            self.close()
            raise
        self._image = ffi.new("uint8_t[]", api.IMAGE_BYTES)

    def _pass(self) -> int:
        if self._first_pass:
            return api.FIRST_PASS
        return api.LAST_PASS if self._statistics is not None else api.ONE_PASS

    def _set_controls(self) -> None:
        s = self._settings
        slowest, fastest = self._PRESETS
        speed = min(max(s.preset, slowest), fastest)
        controls = {api.CPU_USED: speed, api.SUPERBLOCK_SIZE: api.SUPERBLOCK_64, api.AUTO_ALT_REF: 0}
        if self._steered:
            controls |= {api.AQ_MODE: 0, api.DELTAQ_MODE: 2}
        elif s.rate_control == "crf":
            controls[api.CQ_LEVEL] = s.qp
        for control, value in controls.items():
            self._check(
                self._lib.aom_codec_control(self._context, control, ffi.cast("int", value)), f"take control {control}"
            )
        for name, text in s.options.items():
            if name in api.BUFFER_FIELDS:
                continue
            self._check(
                self._lib.aom_codec_set_option(self._context, name.encode(), text.encode()), f"take {name} = {text!r}"
            )
        if self._steered:
            status = self._lib.aom_codec_control(self._context, api.EXTERNAL_RATE_CONTROL, self._decision.functions)
            self._check(status, "take external rate control")

    # -- coding ----------------------------------------------------------------------------------------------------

    def encode(self, frame: Frame, control: Control) -> list[Packet]:
        if self._frames_allowed is not None and self._sent >= self._frames_allowed:
            raise EncoderError(
                f"frame {self._sent} is beyond the first-pass statistics, which cover {self._frames_allowed} frames; "
                "run the first pass over the whole clip"
            )
        if control.base_qp is not None:
            self._qp = control.base_qp
        qp = control.qp if control.qp is not None else self._qp
        self._decision.prepare(qp, control.offsets)
        self._lib.aom_img_wrap(
            self._image, self._image_format, frame.width, frame.height, 1, ffi.from_buffer("uint8_t[]", frame.data)
        )
        self._check(self._lib.aom_codec_encode(self._context, self._image, self._sent, 1, 0), "code a frame")
        data, key = self._take()
        number = self._sent
        self._sent += 1
        if self._first_pass:
            return []
        if not data:
            raise EncoderError(f"libaom gave no packet for frame {number}", self.last_words())
        return [self._packet(frame, data, number, key, self._used_qp(qp))]

    def wait(self, number: int) -> list[Packet]:
        raise EncoderError(f"frame {number} was delivered when it was sent: this backend holds nothing back")

    def finish(self) -> list[Packet]:
        self._check(self._lib.aom_codec_encode(self._context, ffi.NULL, 0, 1, 0), "end the stream")
        self._take()
        return []

    def statistics(self) -> bytes:
        return bytes(self._log)

    def last_words(self) -> str:
        if self._context is None:
            return ""
        messages = (self._lib.aom_codec_error(self._context), self._lib.aom_codec_error_detail(self._context))
        return "\n".join(ffi.string(text).decode("utf-8", "replace") for text in messages if text != ffi.NULL)

    def close(self) -> None:
        if self._context is not None:
            self._lib.aom_codec_destroy(self._context)
            self._context = None

    def _used_qp(self, asked: int) -> int:
        if self._steered:
            return asked
        used = ffi.new("int*")
        self._check(self._lib.aom_codec_control(self._context, api.GET_LAST_QUANTIZER_64, used), "tell its quantiser")
        return int(used[0])

    def _take(self) -> tuple[bytes, bool]:
        """The waiting packets of a frame joined, and whether it is a key frame; statistics go to the log."""
        iterator, data, key = ffi.new("void**"), b"", False
        while (packet := self._lib.aom_codec_get_cx_data(self._context, iterator)) != ffi.NULL:
            content = ffi.buffer(packet.data, packet.size)
            if packet.kind == api.FRAME_PACKET:
                data += bytes(content)
                key |= bool(packet.flags & api.KEY_FLAG)
            elif packet.kind == api.STATISTICS_PACKET:
                self._log += bytes(content)
        return data, key

    def _packet(self, frame: Frame, data: bytes, number: int, key: bool, qp: int) -> Packet:
        picture = self._lib.aom_codec_get_preview_frame(self._context)
        if picture == ffi.NULL:
            raise EncoderError(f"libaom gave no reconstruction of frame {number}", self.last_words())
        planes = api.image_planes(picture, frame.width, frame.height, frame.depth)
        packet = Packet(
            data=data,
            number=number,
            frame_type=FrameType.KEY if key else FrameType.INTER,
            layer=0,
            qp=qp,
            average_qp=qp,
            luma_pixels=frame.width * frame.height,
            coding_order=number,
            picture_bytes=len(data),
            bit_depth=frame.depth,
        )
        if self._settings.psnr:
            y, cb, cr = (sse(source, coded) for source, coded in zip(frame.planes, planes, strict=True))
            packet.sse = (y, cb, cr)
        if self._settings.ssim:
            from reelrl.encode.codecs.block_ssim import (
                picture_ssim,  # brings numba; only those who ask for SSIM wait for it
            )

            packet.ssim = picture_ssim(frame.planes, planes)
        if self._settings.recon:
            packet.recon = Frame.empty(frame.width, frame.height, frame.depth)
            for target, coded in zip(packet.recon.planes, planes, strict=True):
                target[:] = coded
        return packet

    def _check(self, status: int, doing: str) -> None:
        if status:
            raise EncoderError(f"libaom could not {doing} (status {status})", self.last_words())


class _Decision:
    """What the encoder is answered when it asks; apart from `Aom` so that callbacks hold no session alive."""

    def __init__(self, settings: EncoderSettings) -> None:
        self._qindex = qindex_of(settings.qp)
        self._blocks: NDArray[np.int32] = np.full((settings.superblocks, 2), api.DEFAULT_RDMULT, np.int32)
        self._use_map = False
        self._bytes = self._blocks.nbytes
        self._callbacks = (
            ffi.callback("int(void*, void*, void**)", _create),
            ffi.callback("int(void*, void*)", lambda _model, _statistics: 0),
            ffi.callback("int(void*, int, Decision*)", self._decide, error=1),
            ffi.callback("int(void*, void*)", lambda _model, _result: 0),
            ffi.callback("int(void*)", lambda _model: 0),
        )
        self.functions = ffi.new("RateControl*")
        f = self.functions
        f.type = api.QP_MODEL
        f.create, f.statistics, f.decide, f.update, f.destroy = self._callbacks
        f.model = f  # libaom insists on a model; ours is this object

    def prepare(self, qp: int, offsets: NDArray[np.int32] | None) -> None:
        self._qindex = qindex_of(qp)
        self._use_map = offsets is not None
        self._blocks[:, 0] = self._qindex
        if offsets is not None:
            np.clip(self._qindex + QINDEX_PER_QP * offsets, 1, 255, out=self._blocks[:, 0])

    def _decide(self, _model: Any, _gop_index: int, decision: Any) -> int:
        decision.q_index, decision.rdmult = self._qindex, api.DEFAULT_RDMULT
        if decision.superblocks == ffi.NULL:
            return int(self._use_map)  # a map that would be ignored is an error
        decision.use_delta_q[0] = self._use_map
        ffi.memmove(decision.superblocks, self._blocks, self._bytes)
        return 0


def _create(model: Any, _config: Any, created: Any) -> int:
    created[0] = model
    return 0


@cache
def still_statistics(width: int, height: int, fps: Fraction, bit_depth: int = 8, frames: int = LIVE_FRAMES) -> bytes:
    """First-pass statistics of a black, unmoving clip: what to tell libaom of a source whose future is unknown."""
    settings = EncoderSettings(backend="aom", width=width, height=height, fps=fps, bit_depth=bit_depth)
    few = _black_statistics(settings, 3)
    # Records are doubles that start with the frame number; from the second on they are alike but for it.
    records = np.frombuffer(few, np.float64).reshape(-1, api.STATISTICS_RECORD // 8)
    made = np.empty((frames + 1, records.shape[1]))
    made[0], made[1:] = records[0], records[1]
    made[1:frames, 0] = np.arange(1, frames)
    made[frames] = made[:frames].sum(0)
    made[frames, _NOT_SUMMED] = records[-1, _NOT_SUMMED]
    return made.tobytes()


def _black_statistics(settings: EncoderSettings, frames: int) -> bytes:
    encoder = Aom(settings, first_pass=True)
    black = Frame.empty(settings.width, settings.height, settings.bit_depth)
    black.data[:] = 0
    try:
        for _ in range(frames):
            encoder.encode(black, Control())
        encoder.finish()
        return encoder.statistics()
    finally:
        encoder.close()
