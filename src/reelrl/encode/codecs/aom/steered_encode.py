"""One pass through libaom on a thread of its own, which asks for the quantiser of each frame it codes."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from reelrl.content.frame import Frame
from reelrl.content.quality import sse
from reelrl.encode.codecs.aom import api
from reelrl.encode.codecs.aom.first_pass import opened, set_modes
from reelrl.encode.codecs.aom.gops import FrameToCode, GopTracker
from reelrl.encode.codecs.backends import frames_covered
from reelrl.encode.codecs.control import check_frame
from reelrl.encode.codecs.packet import FrameType, Packet
from reelrl.encode.codecs.settings import QINDEX_PER_QP, EncoderSettings, qindex_of
from reelrl.errors import EncoderError, EncoderTimeout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from reelrl.encode.codecs.aom.context import AomContext, AomPacket

ffi = api.ffi

SHORTEST_GOP, LONGEST_GOP = 4, 32

_SHOWN_AGAIN_BITS = 24  # of a frame that is shown again without being coded
_SUPERBLOCKS_AFTER_FLAG = 184  # bytes, in libaom's private rate control of 3.14; verified before each use


@dataclass(frozen=True, slots=True)
class CodedFrame:
    """What a coded frame cost, and the quantiser index it was coded with."""

    asked: FrameToCode
    qindex: int
    bits: int


class SteeredEncode:
    """What the thread of a `TwoPassSession` does: feed libaom, hand its questions out, wait for answers."""

    def __init__(
        self,
        frames: Iterable[Frame],
        settings: EncoderSettings,
        statistics: bytes,
        steered: bool,
        keep_delta_q: bool,
        patience_s: float,
    ) -> None:
        self.questions: SimpleQueue[FrameToCode | BaseException | None] = SimpleQueue()
        self.answers: SimpleQueue[tuple[int, int | None] | None] = SimpleQueue()
        self.packets: list[Packet] = []
        self.coded: list[CodedFrame] = []
        self.progress = 0  # frames handed over and calls made to end the stream
        self._frames, self._settings, self._statistics = frames, settings, statistics
        self._steered, self._keep_delta_q, self._patience_s = steered, keep_delta_q and steered, patience_s
        self._tracker = GopTracker()
        self._pending: FrameToCode | None = None
        self._hidden: tuple[Any, Any] | None = None  # where libaom's list of superblocks belongs, and the list
        self._failure: BaseException | None = None
        self._sources: dict[int, Frame] = {}
        self._places: dict[int, CodedFrame] = {}  # by picture: the coded frame that shows it
        self._gop_limit = self._limit_in_force = LONGEST_GOP
        self._context: AomContext | None = None
        self._callbacks: dict[str, Any] = {}
        self._functions: Any = None

    def run(self) -> None:
        try:
            self._encode()
        except BaseException as error:  # noqa: BLE001 - raised again where the session is used
            self.questions.put(self._failure or error)
        else:
            self.questions.put(None)
        finally:
            self._restore()
            if self._context is not None:
                self._context.close()
            # Without callbacks that know it, this object goes as soon as nobody wants its packets.
            self._callbacks, self._functions = {}, None

    def _encode(self) -> None:
        covered = frames_covered(self._statistics, api.STATISTICS_RECORD)
        context = self._context = opened(self._settings, api.LAST_PASS, self._statistics)
        set_modes(context, self._settings, inner_delta_q=self._keep_delta_q or not self._steered)
        self._attach(context)
        number = 0
        for frame in self._frames:
            if number == covered:
                raise EncoderError(
                    f"frame {number} is beyond the first-pass statistics, which cover {covered} frames; "
                    "run the first pass over the whole clip"
                )
            check_frame(frame, self._settings)
            self._sources[number] = frame
            self._limit_gop(context)
            self.progress += 1
            context.encode(frame, number)
            self._take(context)
            number += 1
        before = -1
        while before != len(self.packets):
            before = len(self.packets)
            self._limit_gop(context)
            self.progress += 1
            context.encode(None, 0)
            self._take(context)
        if len(self.packets) != number:
            raise EncoderError(f"libaom gave {len(self.packets)} packets for {number} frames", context.last_words())

    def _limit_gop(self, context: AomContext) -> None:
        """Say how long the next GOP may be, between two of them: libaom measures each out when it comes to it."""
        if self._gop_limit != self._limit_in_force and self._tracker.between_gops:
            context.option("max-gf-interval", str(self._gop_limit))
            self._limit_in_force = self._gop_limit

    def _take(self, context: AomContext) -> None:
        for packet in context.packets():
            if not packet.statistics:
                self.packets.append(self._packet(context, packet))

    def _packet(self, context: AomContext, unit: AomPacket) -> Packet:
        source, coded = self._sources.pop(unit.number), self._places.pop(unit.number)
        settings = self._settings
        packet = Packet(
            data=unit.data,
            number=unit.number,
            frame_type=FrameType.KEY if unit.key else FrameType.INTER,
            layer=coded.asked.layer,
            qp=min(round(coded.qindex / QINDEX_PER_QP), 63),
            average_qp=min(round(coded.qindex / QINDEX_PER_QP), 63),
            luma_pixels=source.width * source.height,
            coding_order=coded.asked.number,
            picture_bytes=coded.bits // 8,
        )
        if settings.psnr or settings.ssim or settings.recon:
            planes = context.shown(source.width, source.height)
            if settings.psnr:
                y, cb, cr = (sse(ours, theirs) for ours, theirs in zip(source.planes, planes, strict=True))
                packet.sse = (y, cb, cr)
            if settings.ssim:
                from reelrl.encode.codecs.block_ssim import picture_ssim  # brings numba; only those who ask wait for it

                packet.ssim = picture_ssim(source.planes, planes)
            if settings.recon:
                packet.recon = Frame.empty(source.width, source.height)
                for target, made in zip(packet.recon.planes, planes, strict=True):
                    target[:] = made
        return packet

    # -- called by libaom, in the middle of `AomContext.encode` -----------------------------------------------------

    def _attach(self, context: AomContext) -> None:
        def guarded(signature: str, function: Callable[..., int]) -> Any:
            def call(*arguments: Any) -> int:
                try:
                    return function(context, *arguments)
                except BaseException as error:  # noqa: BLE001 - libaom is told, and `run` raises it again
                    self._failure = error
                    return 1

            return ffi.callback(signature, call, error=1)

        functions = ffi.new("RateControl*")
        functions.type = api.QP_MODEL if self._steered else api.OBSERVER
        functions.model = functions  # libaom insists on a model
        self._callbacks = {
            "create": guarded("int(void*, void*, void**)", _create),
            "statistics": guarded("int(void*, void*)", _nothing),
            "update": guarded("int(void*, Coded*)", self._update),
            "destroy": guarded("int(void*)", _nothing),
        }
        if self._steered:
            self._callbacks["decide"] = guarded("int(void*, int, Decision*)", self._decide)
            self._callbacks["tpl"] = guarded("int(void*, TplGop*)", self._analysed)
        for name, callback in self._callbacks.items():
            setattr(functions, name, callback)
        self._functions = functions
        context.control(api.EXTERNAL_RATE_CONTROL, functions)

    def _analysed(self, _context: AomContext, _model: Any, gop: Any) -> int:
        self._tracker.analysed(gop)
        return 0

    def _decide(self, context: AomContext, _model: Any, _entry: int, decision: Any) -> int:
        decision.rdmult = api.DEFAULT_RDMULT
        if decision.superblocks == ffi.NULL:  # the look-ahead wants to know, before any frame of the GOP is coded
            decision.q_index = qindex_of(self._settings.qp)
            return 0
        self._pending = self._tracker.next(context)
        self.questions.put(self._pending)
        decision.q_index = self._answer(self._pending)
        decision.use_delta_q[0] = 0
        if self._keep_delta_q:
            self._hide(decision)
        return 0

    def _answer(self, question: FrameToCode) -> int:
        try:
            answer = self.answers.get(timeout=self._patience_s)
        except Empty:
            raise EncoderTimeout(
                f"no decision came for frame {question.frame} within {self._patience_s:g} s, so the encoder has "
                "ended; reply sooner, or raise patience_s"
            ) from None
        if answer is None:
            raise EncoderError("the session was closed in mid-stream")
        qindex, gop_limit = answer
        self._gop_limit = self._gop_limit if gop_limit is None else gop_limit
        return qindex

    def _update(self, context: AomContext, _model: Any, result: Any) -> int:
        self._restore()
        # A frame that is only shown again costs three bytes and was never asked about.
        coded = self._pending is not None if self._steered else result.bits > _SHOWN_AGAIN_BITS
        if coded:
            asked = self._pending or self._tracker.next(context)
            done = CodedFrame(asked, int(result.q_index), int(result.bits))
            self.coded.append(done)
            if asked.kind != "overlay" or asked.frame not in self._places:
                self._places[asked.frame] = done
        self._pending = None
        self._tracker.done(context, coded=coded)
        return 0

    def _hide(self, decision: Any) -> None:
        """Take libaom's list of superblocks away while it codes the frame: it then keeps its own offsets in it."""
        place = ffi.cast("Superblock**", ffi.cast("uint8_t*", decision.use_delta_q) + _SUPERBLOCKS_AFTER_FLAG)
        if place[0] != decision.superblocks:
            self._keep_delta_q = False
            warnings.warn(
                f"libaom {api.load().version} has another layout inside: its offsets within frames are off; "
                "use keep_delta_q=False",
                RuntimeWarning,
                2,
            )
            return
        self._hidden = place, decision.superblocks
        place[0] = ffi.NULL

    def _restore(self) -> None:
        if self._hidden is not None:
            place, blocks = self._hidden
            place[0] = blocks
            self._hidden = None


def _create(_context: AomContext, model: Any, _config: Any, created: Any) -> int:
    created[0] = model
    return 0


def _nothing(*_: Any) -> int:
    return 0
