"""The log of a pass over a clip: per picture its QP, layer, bits and error, for a later pass or another tool to read.

A log of a first pass also says what a second one starts from: the QP of the CRF pass, and the encoder's own
statistics where a bitrate was asked for.
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reelrl.errors import ContentError
from reelrl.storage.files import explain_os_error, write_atomic
from reelrl.storage.plain_data import parse_object

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reelrl.content.clip import Clip
    from reelrl.encode.codecs.packet import Packet

SCHEMA = 1


@dataclass(frozen=True)
class PassLog:
    """What a pass found; `pictures` are in display order, `statistics` are base64."""

    clip: str
    qp: int
    pictures: tuple[dict[str, float], ...]
    statistics: str = ""

    @classmethod
    def of(cls, clip: Clip, qp: int, packets: Iterable[Packet], statistics: bytes = b"") -> PassLog:
        return cls(clip.content_hash, qp, tuple(map(_picture, packets)), base64.b64encode(statistics).decode())

    @classmethod
    def load(cls, path: str | Path, clip: Clip) -> PassLog:
        """The log at `path`, which must be of this very clip."""
        try:
            facts = parse_object(Path(path).read_bytes())
            if facts.pop("schema") != SCHEMA:
                raise ContentError(f"{path} is a log of another version; make it anew with --pass 1 --stat-out {path}")
            log = cls(**facts | {"pictures": tuple(facts["pictures"])})
        except OSError as error:
            raise ContentError(explain_os_error(error, path, "read")) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ContentError(f"{path} is no log of a pass ({error}); make one with --pass 1 --stat-out") from error
        if log.clip != clip.content_hash:
            raise ContentError(f"{path} is of another clip than {clip.name}; make its own with --pass 1 --stat-out")
        return log

    @property
    def statistics_bytes(self) -> bytes:
        return base64.b64decode(self.statistics)

    def save(self, path: str | Path) -> None:
        write_atomic(path, json.dumps({"schema": SCHEMA, **asdict(self)}) + "\n")


def _picture(packet: Packet) -> dict[str, float]:
    error = packet.luma_sse_in_8_bits if packet.sse is not None else 0
    return {"qp": packet.qp, "layer": packet.layer, "bits": 8 * packet.size, "sse_y": error}
