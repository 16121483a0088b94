"""SVT-AV1 as a `Backend`: exact picture QPs; superblock offsets by segments.

Rules that keep it from hanging: in low delay exactly one blocking `get_packet` follows each picture, and the next
picture waits until the encoder's threads rest (see `quiet`); in random access packets and reconstructions are only
ever polled, both in the same round, because a full queue of either stops the encoder.

With several threads pictures overtake each other on their way to the stream, where a ring puts them in order again. One
that is overtaken by as many as the ring holds finds its place taken: the stream is torn, or never ends. So no more
pictures are sent than the encoder needs to go on, which is learnt by watching when it rests.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.content.frame import Frame, frame_bytes
from reelrl.encode.codecs import svtav1_api as api
from reelrl.encode.codecs.backends import Capabilities, frames_covered
from reelrl.encode.codecs.coded_pictures import CodedPictures
from reelrl.encode.codecs.packet import FrameType, Packet
from reelrl.encode.codecs.resting_threads import RestWatch, ThreadWatch, threads_started_by
from reelrl.encode.codecs.scheduling import normal_scheduling
from reelrl.encode.codecs.settings import MAX_OFFSET, QINDEX_PER_QP, SUPERBLOCK, qindex_of
from reelrl.errors import EncoderError, EncoderTimeout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reelrl.encode.codecs.control import Control
    from reelrl.encode.codecs.settings import EncoderSettings

ffi = api.ffi
_BYTES = ffi.typeof("uint8_t[]")

_RATE_CONTROL = {"cqp": 0, "crf": 0, "vbr": 1, "cbr": 2}
_FRAME_TYPES = {api.KEY_PICTURE: FrameType.KEY, api.NON_REFERENCE_PICTURE: FrameType.NON_REFERENCE}
_POLL_S = 0.0003
_STATISTICS_RECORD = 56  # bytes
_PATIENCE = 0.9  # share of the deadline after which polling gives up
_SINGLE_THREADS = 16  # with `lp` 1: one thread per stage, started in the order of the stages
_CLEANERS = (7, 8, 15)  # picture manager, rate control, packetisation: they still work when a packet is out


class SvtAv1:
    """One SVT-AV1 stream. Give `statistics` of a first pass to code the second pass of VBR."""

    def __init__(self, settings: EncoderSettings, statistics: bytes | None = None, *, first_pass: bool = False) -> None:
        self._library = api.load()
        self._lib = self._library.lib
        # On several threads the last picture of a first pass may sum up the others before all of them are done.
        alone = replace(settings, recon=False, psnr=False, ssim=False, threads=1)
        self._settings = alone if first_pass else settings
        # In random access it skips the last filters of pictures nobody refers to unless reconstructions are wanted, and
        # then measures the errors of what no decoder shows.
        measures = self._settings.psnr or self._settings.ssim
        self._reconstructs = self._settings.recon or (measures and not self._settings.low_delay)
        self._first_pass = first_pass
        self._statistics = statistics
        self._frames_allowed = frames_covered(statistics, _STATISTICS_RECORD)
        self._handle: Any = None
        self._mark = api.log_mark()
        self._sent = 0
        self._map_in_force = False
        self._watch: ThreadWatch | None = None  # in low delay
        self._rest: RestWatch | None = None  # in random access with several threads
        self._window = 1  # pictures it takes to get a packet out, as far as we have seen
        self._delivered = 0
        self._open()
        self._allocate()

    # -- opening ---------------------------------------------------------------------------------------------------

    @staticmethod
    def capabilities() -> Capabilities:
        library = api.load()
        return Capabilities(
            backend="svtav1",
            library=library.path,
            version=library.version,
            superblock_offsets=True,
            picture_qp=True,
            base_qp_change=True,
            random_access=True,
            quality=True,
            notes=(
                "superblock offsets are segments: at most 8 levels, header bits per frame, lambda does not follow",
                "offsets and picture QPs are refused in vbr and cbr, where the encoder would ignore them",
            ),
            title="SVT-AV1",
            minigops=True,
            first_pass_in=("vbr",),
            statistics_depend_on=("target_kbps", "keyint", "levels"),
            own_modes=("crf", "crf:aq-mode=1", "crf:enable-variance-boost=1"),
            bit_depths=(8, 10),
            crf_quarters=True,
            cbr_target_change=True,
            crf_change=True,
        )

    @staticmethod
    def refusal(settings: EncoderSettings) -> str | None:
        if settings.rate_control == "cbr" and not settings.low_delay:
            return "SVT-AV1 has constant bitrate in low delay only: set structure=low_delay, or use vbr"
        if settings.rate_control == "vbr" and settings.low_delay:
            return "SVT-AV1 has variable bitrate in random access only: set structure=random_access, or use cbr"
        if settings.rate_control == "vbr" and settings.keyint == -1:
            return "SVT-AV1's variable bitrate needs key frames: set keyint to a number of frames"
        if settings.rate_control == "cbr" and settings.levels > 2:
            return f"hierarchical_levels = {settings.levels} with cbr: SVT-AV1 would silently take 2"
        if settings.levels == 1 or (settings.levels == 0 and not settings.low_delay):
            return f"hierarchical_levels = {settings.levels}; SVT-AV1 takes 2 to 5, in low delay also 0"
        return None

    def _open(self) -> None:
        handle, config = ffi.new("void**"), np.zeros(api.CONFIG_BYTES, np.uint8)
        where = ffi.from_buffer(config)
        with normal_scheduling():
            self._check(self._lib.svt_av1_enc_init_handle(handle, where), "start")
        self._handle = handle[0]
        for name, value in self._options().items():
            if self._lib.svt_av1_enc_parse_parameter(where, name.encode(), value.encode()):
                self.close()
                raise EncoderError(f"SVT-AV1 refuses {name} = {value!r}; check the name and range", self.last_words())
        self._set_unnamed(config)
        try:
            self._check(self._lib.svt_av1_enc_set_parameter(self._handle, where), "accept its settings")
            self._start()
        except EncoderError:
            self.close()
            raise

    def _start(self) -> None:
        own = threads_started_by(lambda: self._check(self._lib.svt_av1_enc_init(self._handle), "start"))
        if self._settings.low_delay:
            self._watch = ThreadWatch([own[i] for i in _CLEANERS] if len(own) == _SINGLE_THREADS else own)
        elif self._settings.threads > 1:
            self._rest = RestWatch(own)

    def _options(self) -> dict[str, str]:
        s = self._settings
        options: dict[str, Any] = {
            "width": s.width,
            "height": s.height,
            "fps-num": s.fps.numerator,
            "fps-denom": s.fps.denominator,
            "preset": s.preset,
            "pred-struct": 1 if s.low_delay else 2,
            "hierarchical-levels": s.levels,
            "keyint": s.keyint,
            "lp": s.threads,
            "scd": 0,
            "rc": _RATE_CONTROL[s.rate_control],
            "input-depth": s.bit_depth,
        }
        if s.low_delay:
            options |= {"rtc": 1, "enable-tf": 0}
        if s.steers_rate:
            options["tbr"] = round(s.target_kbps or 0)
        else:
            options |= {"qp": s.qp, "aq-mode": 0 if s.rate_control == "cqp" else 2, "use-q-file": int(s.picture_qp)}
            if s.crf_quarters:
                options["crf"] = s.crf  # only this option takes quarters
        if s.tune is not None:
            options["tune"] = s.tune
        if self._first_pass:
            options |= {"pass": 1, "preset": _first_pass_preset(s)}
        elif self._statistics is not None:
            options["pass"] = 2
        return {name: str(value) for name, value in (options | s.options).items()}

    def _set_unnamed(self, config: NDArray[np.uint8]) -> None:
        config[self._library.recon_at] = self._reconstructs
        config[self._library.roi_at] = not self._settings.steers_rate  # free as long as no map is sent
        if self._statistics is not None:
            self._log = ffi.from_buffer(self._statistics)
            entry = ffi.new("FixedBuffer*", (ffi.cast("void*", self._log), len(self._statistics)))
            at = self._library.statistics_at
            config[at : at + ffi.sizeof("FixedBuffer")] = np.frombuffer(ffi.buffer(entry), np.uint8)

    def _allocate(self) -> None:
        """Everything a step needs, made once: the loop then only fills in numbers."""
        s = self._settings
        self._bytes = frame_bytes(s.width, s.height, s.bit_depth)
        self._luma_bytes = self._bytes * 2 // 3
        self._planes, self._picture, self._out = ffi.new("Planes*"), ffi.new("Header*"), ffi.new("Header**")
        self._planes.y_stride, self._planes.cb_stride, self._planes.cr_stride = s.width, s.width // 2, s.width // 2
        self._recon_header = ffi.new("Header*")
        self._picture.size = self._recon_header.size = ffi.sizeof("Header")
        self._picture.buffer = ffi.cast("uint8_t*", self._planes)
        self._low_delay, self._luma_pixels = s.low_delay, s.width * s.height
        self._map_life = 2 * 2**s.levels + 1  # frames for which later pictures may still read a map
        self._recon_header.allocated = self._bytes
        self._quality = ffi.new("Quality*", (s.psnr, s.ssim))
        self._quality_event = ffi.new("Event*", (api.COMPUTE_QUALITY_EVENT, self._quality, 2, ffi.NULL))
        self._alive: dict[int, list[Any]] = {}  # what the library reads after `send_picture`, by frame number
        # Reconstructions by frame number: with several threads they come in the order in which they are finished.
        self._recons: dict[int, Frame] = {}
        self._coded = CodedPictures()
        self._waiting: list[Packet] = []
        self._ended = False

    # -- coding ----------------------------------------------------------------------------------------------------

    def encode(self, frame: Frame, control: Control) -> list[Packet]:
        self._send(frame, control)
        if self._low_delay:
            self._take_packet(self._lib.svt_av1_enc_get_packet(self._handle, self._out, 0))
            self._drain_recon()
        else:
            self._poll()
        return self._ready()

    def wait(self, number: int) -> list[Packet]:
        ready: list[Packet] = []
        started = time.monotonic()
        while not self._ended:
            ready += self._ready()
            if ready and ready[-1].number >= number:
                break
            if not self._poll():
                self._pause(started, f"deliver frame {number}")
        return ready

    def finish(self) -> list[Packet]:
        end = self._picture
        end.buffer, end.events, end.filled, end.flags, end.picture_type = (
            ffi.NULL,
            ffi.NULL,
            0,
            api.EOS_FLAG,
            api.ANY_PICTURE,
        )
        self._hand_over(end, "end the stream")
        started = time.monotonic()
        while not self._ended:
            if not self._poll():
                self._pause(started, "finish")
        ready = self._ready()
        if self._waiting:
            missing = [packet.number for packet in self._waiting]
            raise EncoderError(f"SVT-AV1 ended the stream without reconstructions of frames {missing}; encode it again")
        return ready

    def statistics(self) -> bytes:
        log = ffi.new("FixedBuffer*")
        self._check(self._lib.svt_av1_enc_get_stream_info(self._handle, api.FIRST_PASS_STATISTICS, log), "give its log")
        return bytes(ffi.buffer(log.data, log.size))

    def last_words(self) -> str:
        return api.last_words(self._mark)

    def close(self) -> None:
        if self._handle is not None:
            self._let_go()
            self._lib.svt_av1_enc_deinit(self._handle)
            self._lib.svt_av1_enc_deinit_handle(self._handle)
            self._handle = None
        for watch in (self._watch, self._rest):
            if watch is not None:
                watch.close()
        self._watch = self._rest = None

    def _let_go(self) -> None:
        """Finish a stream that is left early: pictures that wait for room among the reconstructions never end alone."""
        if self._sent and not self._ended and self._reconstructs and not self._low_delay:
            with suppress(EncoderError):
                self.finish()

    def _send(self, frame: Frame, control: Control) -> None:
        picture, planes, number = self._picture, self._planes, self._sent
        if self._frames_allowed is not None and number >= self._frames_allowed:
            raise EncoderError(
                f"frame {number} is beyond the first-pass statistics, which cover {self._frames_allowed} frames; "
                "run the first pass over the whole clip"
            )
        start, luma = ffi.from_buffer(_BYTES, frame.data), self._luma_bytes
        planes.y, planes.cb, planes.cr = start, start + luma, start + luma * 5 // 4
        picture.filled, picture.flags, picture.picture_type = self._bytes, 0, api.ANY_PICTURE
        picture.pts = number
        picture.qp = control.qp if control.qp is not None else self._settings.qp
        picture.events = self._events(number, control)
        if self._rest is not None:
            self._wait_for_room(self._rest)
        self._sent += 1
        self._hand_over(picture, "take a frame")

    def _wait_for_room(self, rest: RestWatch) -> None:
        """Return when the next picture can't push another from its place: see above."""
        started = time.monotonic()
        while self._sent - self._delivered >= self._window:
            if self._poll():
                continue
            if not rest.at_rest():
                self._pause(started, f"make room for frame {self._sent}")
            elif not self._poll():
                self._window = self._sent - self._delivered + 1  # it rests for want of pictures

    def _hand_over(self, picture: Any, doing: str) -> None:
        if self._watch is not None:
            self._watch.wait()
        self._check(self._lib.svt_av1_enc_send_picture(self._handle, picture), doing)

    def _events(self, number: int, control: Control) -> Any:
        """The chain of events of one picture. The library keeps pointers, so what they point to is kept alive."""
        chain = self._quality_event if self._settings.psnr or self._settings.ssim else ffi.NULL
        if self._first_pass:
            return ffi.NULL
        if control.kbps is not None:
            rate = ffi.new("Rate*", (self._settings.qp, round(1000 * control.kbps)))
            chain = self._event(number, api.RATE_CHANGE_EVENT, rate, ffi.sizeof("Rate"), chain)
        if control.base_qp is not None:
            rate = ffi.new("Rate*", (control.base_qp, 2_000_513))  # the encoder's default rate: any other is an error
            chain = self._event(number, api.RATE_CHANGE_EVENT, rate, ffi.sizeof("Rate"), chain)
        if control.offsets is not None:
            qp = control.qp if control.qp is not None else self._settings.qp
            roi = self._map(number, control.offsets, qp)
            chain = self._event(number, api.ROI_MAP_EVENT, roi, ffi.sizeof("void*"), chain)
            self._map_in_force = True
        elif self._map_in_force:
            # A map stays in force until the next one. An empty event ends it; the library grumbles and obeys.
            chain = self._event(number, api.ROI_MAP_EVENT, ffi.NULL, ffi.sizeof("void*"), chain)
            self._map_in_force = False
        return chain

    def _event(self, number: int, kind: int, data: Any, size: int, following: Any) -> Any:
        event = ffi.new("Event*", (kind, data, size, following))
        self._alive.setdefault(number, []).extend((event, data))
        return event

    def _map(self, number: int, offsets: NDArray[np.int32], qp: int) -> Any:
        """A segment map. Few levels and descending order, as the encoder codes each level and falls back downwards."""
        levels = np.flatnonzero(np.bincount(offsets + MAX_OFFSET))[::-1] - MAX_OFFSET
        segment_of = np.zeros(2 * MAX_OFFSET + 1, np.uint8)
        segment_of[levels + MAX_OFFSET] = np.arange(len(levels))
        places = ffi.new("uint8_t[]", segment_of[offsets + MAX_OFFSET].tobytes())
        self._alive.setdefault(number, []).append(places)
        roi = ffi.new("RoiMap*")
        roi.first_picture, roi.segments, roi.last_segment = number, places, len(levels) - 1
        lowest = 1 - qindex_of(qp)  # qindex 0 would mean lossless
        roi.qindex[0 : len(levels)] = [max(level * QINDEX_PER_QP, lowest) for level in levels.tolist()]
        return roi

    def _poll(self) -> bool:
        """Take whatever is ready of packets and reconstructions; False when nothing was."""
        # In this order: a reconstruction is queued before its packet, so it is at hand once the packet is.
        packet = self._take_packet(self._lib.svt_av1_enc_get_packet(self._handle, self._out, 0))
        return self._drain_recon() or packet

    def _pause(self, started: float, doing: str) -> None:
        """A moment until the next poll. Ends in an error just before the caller gives up: so the thread is not lost."""
        deadline_s = self._settings.call_deadline_s
        if time.monotonic() - started > _PATIENCE * deadline_s:
            raise EncoderTimeout(
                f"the encoder did not {doing} within {deadline_s:g} s; raise deadline_s, or send it the "
                "frames it waits for"
            )
        time.sleep(_POLL_S)

    def _take_packet(self, status: int) -> bool:
        if status == api.EMPTY_QUEUE:
            return False
        self._check(status, "give a packet")
        out = self._out[0]
        self._ended = bool(out.flags & api.EOS_FLAG)
        try:
            if out.filled:
                self._check_number(out.pts)
                self._waiting.append(self._packet(out))
                self._delivered += 1
        finally:
            self._lib.svt_av1_enc_release_out_buffer(self._out)
        return True

    def _check_number(self, number: int) -> None:
        if number != self._delivered:
            raise EncoderError(
                f"SVT-AV1 gave frame {number} where frame {self._delivered} was due: the stream is torn; encode it "
                "again, with one thread if it comes again",
                self.last_words(),
            )

    def _packet(self, out: Any) -> Packet:
        data = bytes(ffi.buffer(out.buffer, out.filled))
        order, size = (out.pts, len(data)) if self._low_delay else self._coded.shown(data, out.pts)
        return Packet(
            data=data,
            number=out.pts,
            frame_type=_FRAME_TYPES.get(out.picture_type, FrameType.INTER),
            layer=out.layer,
            qp=out.qp,
            average_qp=out.average_qp,
            luma_pixels=self._luma_pixels,
            coding_order=order,
            picture_bytes=size,
            sse=(out.y_sse, out.cb_sse, out.cr_sse) if self._settings.psnr else None,
            ssim=(out.y_ssim, out.cb_ssim, out.cr_ssim) if self._settings.ssim else None,
            bit_depth=self._settings.bit_depth,
        )

    def _drain_recon(self) -> bool:
        if not self._reconstructs:
            return False
        drained = False
        while True:
            frame = Frame.empty(self._settings.width, self._settings.height, self._settings.bit_depth)
            self._recon_header.buffer = ffi.from_buffer("uint8_t[]", frame.data)
            status = self._lib.svt_av1_get_recon(self._handle, self._recon_header)
            if status == api.EMPTY_QUEUE:
                return drained
            self._check(status, "give a reconstruction")
            drained = True
            if self._recon_header.filled:  # at the end of a stream an empty one may come, numbered like any other
                self._recons[self._recon_header.pts] = frame
            if self._low_delay:
                return True  # one picture in, one out: asking again would only cost a frame's memory

    def _ready(self) -> list[Packet]:
        """Packets whose reconstruction is here too, in display order."""
        ready = []
        while self._waiting:
            packet = self._waiting[0]
            if self._reconstructs:
                if packet.number not in self._recons:
                    break
                recon = self._recons.pop(packet.number)
                packet.recon = recon if self._settings.recon else None
            self._alive.pop(packet.number - self._map_life, None)
            ready.append(self._waiting.pop(0))
        return ready

    def _check(self, status: int, doing: str) -> None:
        if status:
            raise EncoderError(f"SVT-AV1 could not {doing} (status {status & 0xFFFFFFFF:#010x})", self.last_words())


def _first_pass_preset(settings: EncoderSettings) -> int:
    """Faster presets halve the picture first, and then read far beyond one that is smaller than two superblocks."""
    small = min(settings.width, settings.height) < 2 * SUPERBLOCK
    return min(settings.preset, 8) if small else settings.preset
