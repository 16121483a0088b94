"""What an agent decides for one picture, and every check that comes before an encoder sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reelrl.content.frame import Frame
from reelrl.encode.codecs.backends import capabilities, encoder_class
from reelrl.encode.codecs.settings import MAX_OFFSET
from reelrl.errors import ConfigError, ContentError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from reelrl.encode.codecs.settings import EncoderSettings


@dataclass(frozen=True, slots=True)
class Control:
    """What an agent decided for one picture; None leaves a thing as it is.

    qp       the picture's own quantiser (needs `picture_qp`)
    base_qp  a new base of the pyramid from this picture on (cqp); with the last picture of a mini-GOP, the CRF of it
             and of all that follow (crf)
    offsets  int32 per superblock in raster order, in QP steps; None sends no map
    kbps     a new target of cbr from this picture on
    """

    qp: int | None = None
    base_qp: int | None = None
    offsets: NDArray[np.int32] | None = None
    kbps: float | None = None

    @classmethod
    def checked(
        cls,
        settings: EncoderSettings,
        qp: int | None,
        base_qp: int | None,
        offsets: ArrayLike | None,
        kbps: float | None = None,
    ) -> Control:
        """What the encoder will obey, or ConfigError with the reason why it would not."""
        if kbps is not None:
            _check_rate(settings, kbps)
        if qp is None and base_qp is None and offsets is None:
            return NOTHING if kbps is None else cls(kbps=kbps)
        if settings.steers_rate:
            raise ConfigError(
                f"a {_named(qp, base_qp)} was sent with rate_control = {settings.rate_control}: the encoder chooses "
                "its own quantisers there and would ignore it; use cqp or crf and hold the bitrate yourself "
                "(FrameQpBucket)"
            )
        if qp is not None and not settings.picture_qp:
            raise ConfigError(f"qp = {qp} was sent to a session without picture_qp; open it with picture_qp=True")
        if base_qp is not None and (settings.picture_qp or not _moves_base(settings)):
            raise ConfigError(
                f"base_qp = {base_qp} was sent to a session with rate_control = {settings.rate_control}, picture_qp = "
                f"{settings.picture_qp}; the base can be moved in cqp without picture_qp only (by SVT-AV1 also in crf "
                "with random access): send qp, or open another"
            )
        if offsets is not None:
            check_maps_are_obeyed(settings)
        largest = capabilities(settings.backend).largest_offset
        return cls(
            qp=None if qp is None else _quantiser("qp", qp),
            base_qp=None if base_qp is None else _quantiser("base_qp", base_qp),
            offsets=None if offsets is None else checked_offsets(offsets, settings.grid, largest),
        )


NOTHING = Control()


def _check_rate(settings: EncoderSettings, kbps: float) -> None:
    if settings.rate_control != "cbr" or not (able := capabilities(settings.backend)).cbr_target_change:
        title = capabilities(settings.backend).title
        raise ConfigError(f"kbps = {kbps} in mid-stream: {title} with {settings.rate_control} has no target to move")
    if not kbps >= 1:
        raise ConfigError(f"kbps = {kbps}: {able.title} takes 1 kbit/s or more")


def _moves_base(settings: EncoderSettings) -> bool:
    if settings.rate_control == "crf":
        return capabilities(settings.backend).crf_change and not settings.low_delay
    return settings.rate_control == "cqp"


def check_openable(settings: EncoderSettings) -> None:
    """Refuse settings that no session can meet, before any library is touched."""
    if not (settings.width and settings.height):
        raise ConfigError("settings have no frame size; set width and height, or use settings.for_clip(clip)")
    if reason := encoder_class(settings.backend).refusal(settings):
        raise ConfigError(reason)
    if settings.bit_depth != 8 and settings.bit_depth not in (able := capabilities(settings.backend)).bit_depths:
        raise ConfigError(f"bit_depth = {settings.bit_depth}: {able.title} codes 8 bits here; use clip.at_depth(8)")
    if settings.crf_quarters and not (able := capabilities(settings.backend)).crf_quarters:
        raise ConfigError(f"crf {settings.crf:g}: {able.title} has whole steps of CRF only; use {settings.qp}")


def check_frame(frame: Frame, settings: EncoderSettings) -> None:
    """Refuse a frame that is none, of another size or depth than the stream, or with samples out of range."""
    if not isinstance(frame, Frame):
        raise ContentError(f"a {type(frame).__name__} was sent; wrap the planes: Frame(i420, width, height)")
    if (frame.width, frame.height) != (settings.width, settings.height):
        raise ContentError(
            f"frame is {frame.width}x{frame.height}, this stream is {settings.width}x{settings.height}; "
            "scale it, or open a session of its size"
        )
    if frame.depth != settings.bit_depth:
        raise ContentError(
            f"frame has {frame.depth} bits, this stream {settings.bit_depth}; send "
            f"frame.at_depth({settings.bit_depth}), or open a session with bit_depth={frame.depth}"
        )
    frame.check_range()


def check_maps_are_obeyed(settings: EncoderSettings) -> None:
    """Refuse superblock maps in a rate control where the encoder would ignore them."""
    able = capabilities(settings.backend)
    if settings.rate_control not in able.maps_in:
        where = " and ".join(able.maps_in) + " only" if able.maps_in else "no rate control"
        raise ConfigError(
            f"a superblock map was sent with rate_control = {settings.rate_control}: {able.title} takes maps in "
            f"{where} and would ignore it; open the session with another rate_control, or send no map"
        )


def checked_offsets(offsets: ArrayLike, grid: tuple[int, int], largest: int = MAX_OFFSET) -> NDArray[np.int32]:
    """Offsets as flat int32 in raster order; `offsets` holds one whole number of QP steps per superblock."""
    rows, columns = grid
    try:
        values = np.asarray(offsets)
    except ValueError as error:  # ragged lists
        raise ConfigError(f"offsets are no array: {error}; give one number per superblock") from None
    if values.shape not in ((rows * columns,), (rows, columns)):
        raise ConfigError(
            f"offsets have {_shape(values)} entries, this clip has {rows * columns} superblocks "
            f"({columns} x {rows}): give one per superblock, in raster order"
        )
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        bad = int(np.flatnonzero(~np.isfinite(values.ravel()))[0])
        raise ConfigError(f"offset of superblock {bad} is {values.ravel()[bad]}; offsets are finite whole numbers")
    if values.dtype.kind not in "iu":
        raise ConfigError(f"offsets are {values.dtype}; they are whole QP steps: pass integers")
    if values.size and (values.min() < -largest or values.max() > largest):
        worst = int(np.abs(values.astype(np.int64)).argmax())
        raise ConfigError(
            f"offset of superblock {worst} is {values.ravel()[worst]}; the range is -{largest} to {largest}"
        )
    return np.ascontiguousarray(values, np.int32).reshape(-1)


def _quantiser(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ConfigError(f"{name} = {value!r} is {type(value).__name__}; a QP is a whole number from 1 to 63")
    if not 1 <= value <= 63:
        raise ConfigError(f"{name} = {value}; a QP lies in 1 to 63")
    return int(value)


def _named(qp: int | None, base_qp: int | None) -> str:
    if qp is not None:
        return "picture QP"
    return "base QP" if base_qp is not None else "superblock map"


def _shape(values: NDArray[Any]) -> str:
    return str(values.size) if values.ndim == 1 else " x ".join(map(str, values.shape)) or "no"
