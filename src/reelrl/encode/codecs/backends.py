"""The backends there are (registered in `reelrl.names.BACKENDS`), what each can do, and the protocol they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from reelrl import names
from reelrl.encode.codecs.settings import MAX_OFFSET
from reelrl.errors import EncoderError

if TYPE_CHECKING:
    from reelrl.content.frame import Frame
    from reelrl.encode.codecs.control import Control
    from reelrl.encode.codecs.packet import Packet
    from reelrl.encode.codecs.settings import EncoderSettings


@dataclass(frozen=True)
class Capabilities:
    """What an encoder library was found to be able to do. Whoever needs to know asks here, never for a name.

    title                       what people call the encoder, for messages
    maps_in                     rate controls in which it obeys superblock offsets
    exact_maps                  an offset changes its superblock by exactly that, and a map of zeros costs nothing
    largest_offset              that it takes in a superblock map, in QP steps, in either direction
    minigops                    the QPs of a mini-GOP can be moved one by one, in low delay and random access
    quantisers_need_statistics  in cqp it obeys QPs only in a second pass, so it wants the first one's log
    first_pass_in               rate controls that have a first pass
    statistics_depend_on        settings that change the first pass's log besides picture, preset, tune and options
    bit_depths                  of samples that it codes
    crf_quarters                it has quarter steps of CRF
    cbr_target_change           the target of cbr can be moved in mid-stream
    crf_change                  the CRF can be moved in random access, from mini-GOP to mini-GOP
    own_modes                   what it offers against maps by itself: contestants of `reel evaluate superblock`
    """

    backend: str
    library: str
    version: str
    superblock_offsets: bool
    picture_qp: bool
    base_qp_change: bool
    random_access: bool
    quality: bool
    notes: tuple[str, ...] = ()
    title: str = "the encoder"
    maps_in: tuple[str, ...] = ("cqp", "crf")
    exact_maps: bool = False
    largest_offset: int = MAX_OFFSET
    minigops: bool = False
    quantisers_need_statistics: bool = False
    first_pass_in: tuple[str, ...] = ()
    statistics_depend_on: tuple[str, ...] = ("threads", "target_kbps", "keyint", "levels")
    own_modes: tuple[str, ...] = ()
    bit_depths: tuple[int, ...] = (8,)
    crf_quarters: bool = False
    cbr_target_change: bool = False
    crf_change: bool = False


class Backend(Protocol):
    """One open stream inside a library. All calls come from one thread; arguments are already checked."""

    def __init__(self, settings: EncoderSettings, statistics: bytes | None) -> None: ...

    @staticmethod
    def capabilities() -> Capabilities:
        """What the library can do; EncoderMissing when there is none."""
        ...

    @staticmethod
    def refusal(settings: EncoderSettings) -> str | None:
        """Why these settings cannot be met, or None."""
        ...

    def encode(self, frame: Frame, control: Control) -> list[Packet]:
        """Take one frame; give the packets that are ready, in display order."""
        ...

    def wait(self, number: int) -> list[Packet]:
        """Packets up to that of frame `number`, which must be on its way."""
        ...

    def finish(self) -> list[Packet]:
        """End the stream and give what was held back."""
        ...

    def statistics(self) -> bytes:
        """After a first pass: the log that a second pass wants."""
        ...

    def last_words(self) -> str:
        """What the library logged of late."""
        ...

    def close(self) -> None:
        """Free everything, also in mid-stream."""
        ...


Encoder = Backend  # its name in version 0.1


def encoder_class(name: str) -> Any:
    """The class of a backend by name."""
    return names.resolve(names.BACKENDS, name, foreign=True)


def frames_covered(statistics: bytes | None, record_bytes: int) -> int | None:
    """Frames that the log of a first pass speaks of: one record each, and one more that sums them up.

    Checked here because SVT-AV1 divides by zero over a log that is cut.
    """
    if statistics is None:
        return None
    records, rest = divmod(len(statistics), record_bytes)
    if rest or records < 2:
        raise EncoderError(
            f"first-pass statistics have {len(statistics)} bytes, not {record_bytes} for each frame and as many for "
            "the sum; run first_pass over this clip with these settings"
        )
    return records - 1


def capabilities(name: str) -> Capabilities:
    """Capabilities of a backend by name; EncoderMissing when its library is absent, too old or unknown."""
    able: Capabilities = encoder_class(name).capabilities()
    return able


probe = capabilities  # its name in version 0.1
