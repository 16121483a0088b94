"""`run` and `register_callbacks`: an encode with two callbacks, for scripts, in the shape people know.

    def get_deltaq_offset(superblocks, frame_type, picture_number): return [0] * len(superblocks)
    def picture_feedback(bitstream, size, picture_number): ...

    register_callbacks(get_deltaq_offset=get_deltaq_offset, picture_feedback=picture_feedback)
    run(input="clip.y4m", pred_struct=1, rc=0, qp=40, output="out.ivf")

Callbacks belong to a `Script`. The two functions use one that belongs to the thread or task that calls them.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.content.sources import open_clip
from reelrl.content.write.video import write_bitstream
from reelrl.encode.codecs.control import checked_offsets
from reelrl.encode.codecs.packet import FrameType
from reelrl.encode.codecs.rate_loop import FrameQpBucket
from reelrl.encode.codecs.session import EncoderSession
from reelrl.encode.codecs.settings import SUPERBLOCK, qindex_of
from reelrl.encode.codecs.whole_clip import first_pass, wants_statistics
from reelrl.encode.features import MOTION_X, MOTION_Y, FeatureExtractor
from reelrl.encode.script.flags import parse
from reelrl.errors import ConfigError
from reelrl.storage.files import refuse_overwriting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from reelrl.content.clip import Clip
    from reelrl.content.frame import Frame
    from reelrl.encode.codecs.packet import Packet
    from reelrl.encode.codecs.settings import EncoderSettings

    OffsetCallback = Callable[[list[dict[str, int]], FrameType, int], Sequence[int]]
    FeedbackCallback = Callable[[bytes, int, int], object]

_UNCHANGED: Any = object()


@dataclass(frozen=True)
class Summary:
    """What a run made."""

    frames: int
    size_bytes: int
    kbps: float
    psnr_y: float


class Script:
    """An encode that asks for superblock offsets before a picture and tells of packets after it."""

    def __init__(self) -> None:
        self._offsets: OffsetCallback | None = None
        self._feedback: FeedbackCallback | None = None

    def register_callbacks(
        self,
        get_deltaq_offset: OffsetCallback | None = _UNCHANGED,
        picture_feedback: FeedbackCallback | None = _UNCHANGED,
    ) -> None:
        """Set callbacks; None unsets one, leaving it out keeps it."""
        if get_deltaq_offset is not _UNCHANGED:
            self._offsets = _checked("get_deltaq_offset", get_deltaq_offset, "superblocks, frame_type, picture_number")
        if picture_feedback is not _UNCHANGED:
            self._feedback = _checked("picture_feedback", picture_feedback, "bitstream, size, picture_number")

    def run(self, **flags: Any) -> Summary:
        """Encode `input`, flags named like the encoder's; see `reelrl.encode.script.flags`."""
        job = parse(flags)
        clip = open_clip(job.input, size=job.size, fps=job.fps)
        if job.frames is not None:
            clip = clip.window(0, min(job.frames, clip.frame_count))
        refuse_overwriting(job.output, *clip.files)
        packets = self._encode(clip, job.settings.for_clip(clip))
        if job.output is not None:
            write_bitstream(job.output, [packet.data for packet in packets], clip.width, clip.height, clip.fps)
        size = sum(packet.size for packet in packets)
        psnr = sum(packet.psnr[0] for packet in packets) / len(packets)
        return Summary(len(packets), size, size * 8 / clip.duration_s / 1000, psnr)

    def _encode(self, clip: Clip, settings: EncoderSettings) -> list[Packet]:
        bucket = None
        if self._offsets is not None and settings.steers_rate:
            bucket, settings = _own_rate_loop(settings)
        statistics = first_pass(clip, settings) if wants_statistics(settings) else None
        asker = _Asker(self._offsets, settings) if self._offsets is not None else None
        packets: list[Packet] = []
        with EncoderSession(settings, statistics=statistics) as session:
            for number, frame in enumerate(clip):
                key = number == 0 or (settings.keyint > 0 and number % settings.keyint == 0)
                qp = bucket.next_qp(key=key) if bucket is not None else None
                offsets = asker.ask(frame, number, key, qp) if asker is not None else None
                session.send(frame, qp=qp, offsets=offsets)
                ready = session.receive()
                if bucket is not None and qp is not None:
                    bucket.update(ready[0].size, qp, key=key)
                packets += self._reported(ready)
            packets += self._reported(session.flush())
        return packets

    def _reported(self, packets: list[Packet]) -> list[Packet]:
        if self._feedback is not None:
            for packet in packets:
                self._feedback(packet.data, packet.size, packet.number)
        return packets


_current: ContextVar[Script] = ContextVar("script")


def register_callbacks(
    get_deltaq_offset: OffsetCallback | None = _UNCHANGED, picture_feedback: FeedbackCallback | None = _UNCHANGED
) -> None:
    """Set the callbacks of later `run` calls in this thread or task; None unsets one."""
    _here().register_callbacks(get_deltaq_offset, picture_feedback)


def run(**flags: Any) -> Summary:
    """Encode a clip with the callbacks registered in this thread or task."""
    return _here().run(**flags)


def _here() -> Script:
    script = _current.get(None)
    if script is None:
        script = Script()
        _current.set(script)
    return script


class _Asker:
    """Describes superblocks to the offset callback and checks what it returns."""

    def __init__(self, callback: OffsetCallback, settings: EncoderSettings) -> None:
        self._callback = callback
        self._settings = settings
        self._extractor = FeatureExtractor(settings.width, settings.height)

    def ask(self, frame: Frame, number: int, key: bool, qp: int | None) -> NDArray[np.int32] | None:
        superblocks = self._superblocks(frame, qindex_of(qp if qp is not None else self._settings.qp))
        kind = FrameType.KEY if key else self._inter_kind(number)
        given = self._callback(superblocks, kind, number)
        return self._checked(given, number, len(superblocks))

    def _inter_kind(self, number: int) -> FrameType:
        """In a pyramid every second picture is in the top layer, which nothing refers to."""
        top = self._settings.levels > 0 and number % 2 == 1
        return FrameType.NON_REFERENCE if top else FrameType.INTER

    def _superblocks(self, frame: Frame, qindex: int) -> list[dict[str, int]]:
        x_motion, y_motion = np.rint(self._extractor.extract(frame)[[MOTION_X, MOTION_Y]]).astype(int).tolist()
        columns = self._settings.grid[1]
        described = []
        for i, (x_mv, y_mv) in enumerate(zip(x_motion, y_motion, strict=True)):
            x, y = i % columns * SUPERBLOCK, i // columns * SUPERBLOCK
            described.append(
                {
                    "sb_org_x": x,
                    "sb_org_y": y,
                    "sb_width": min(SUPERBLOCK, frame.width - x),
                    "sb_height": min(SUPERBLOCK, frame.height - y),
                    "sb_qindex": qindex,
                    "sb_x_mv": x_mv,
                    "sb_y_mv": y_mv,
                }
            )
        return described

    def _checked(self, given: Any, number: int, count: int) -> NDArray[np.int32] | None:
        """The offsets; all zero means no map, as a map of zeros costs bits for nothing."""
        if isinstance(given, str | bytes | Mapping) or not (
            hasattr(given, "__len__") and hasattr(given, "__getitem__")
        ):
            raise ConfigError(
                f"get_deltaq_offset returned {type(given).__name__} for picture {number}; return {count} whole numbers"
            )
        if len(given) != count:
            raise ConfigError(
                f"get_deltaq_offset returned {len(given)} offsets for picture {number}, which has {count} superblocks"
            )
        offsets = checked_offsets(list(given), self._settings.grid)
        return offsets if offsets.any() else None


def _own_rate_loop(settings: EncoderSettings) -> tuple[FrameQpBucket, EncoderSettings]:
    """The encoder would ignore offsets while it holds a bitrate, so we hold it."""
    if not settings.low_delay:
        raise ConfigError(
            f"an offset callback with rc = {1 if settings.rate_control == 'vbr' else 2} in random access: the encoder "
            "would ignore the offsets, and our own rate loop needs low delay: set pred_struct=1"
        )
    warnings.warn(
        f"{settings.rate_control} with an offset callback: the encoder would ignore the offsets, so "
        f"{settings.target_kbps:g} kbit/s is held by reelrl's own rate loop over fixed QPs",
        stacklevel=4,
    )
    target = float(settings.target_kbps or 0)
    bucket = FrameQpBucket(target, settings.fps, settings.width * settings.height)
    return bucket, replace(settings, rate_control="cqp", target_kbps=None, picture_qp=True)


def _checked(name: str, callback: Any, parameters: str) -> Any:
    """The callback, if it can be called with three arguments and nothing looser."""
    if callback is None:
        return None
    if not callable(callback):
        raise ConfigError(f"{name} is a {type(callback).__name__}; pass a function of ({parameters}), or None")
    try:
        signature = inspect.signature(callback)
    except (TypeError, ValueError):
        raise ConfigError(f"{name} has no signature to check; wrap it: lambda {parameters}: ...") from None
    kinds = [p.kind for p in signature.parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds or inspect.Parameter.VAR_KEYWORD in kinds:
        raise ConfigError(f"{name}{signature} takes any arguments; name them: ({parameters})")
    try:
        signature.bind(None, None, None)
    except TypeError:
        raise ConfigError(f"{name}{signature} cannot take three arguments; it is called with ({parameters})") from None
    return callback
