"""What the records of episodes share: which clip, which encoder, and how the same bytes are made again."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from reelrl.content.sources import open_clip
from reelrl.encode.codecs.backends import capabilities
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.codecs.whole_clip import encode_packets
from reelrl.errors import ContentError, EncoderError
from reelrl.settings.config import from_mapping, to_mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reelrl.content.clip import Clip
    from reelrl.content.frame import Frame
    from reelrl.encode.codecs.whole_clip import Decision

SCHEMA = 1


def head(clip: Clip, settings: EncoderSettings, *, video: str, first_frame: int, seed: int | None) -> dict[str, Any]:
    """The part of a record that says what was coded, and by what; `video` is what `open_clip` takes."""
    return {
        "schema": SCHEMA,
        "clip": {
            "video": video,
            "name": clip.name,
            "source": clip.source,
            "first_frame": first_frame,
            "frames": clip.frame_count,
            "hash": clip.content_hash,
        },
        "encoder": to_mapping(settings),
        "build": {"backend": settings.backend, "version": capabilities(settings.backend).version},
        "seed": seed,
    }


def digest(packets: Sequence[bytes]) -> str:
    """SHA-256 of the packets joined, as hex."""
    whole = hashlib.sha256()
    for packet in packets:
        whole.update(packet)
    return whole.hexdigest()


def read_head(record: dict[str, Any], clip: Clip | None) -> tuple[Clip, EncoderSettings]:
    """Clip and settings of a record. Another content or another build of the encoder is an error."""
    clip = _recorded_clip(record["clip"], clip)
    settings = from_mapping(EncoderSettings, record["encoder"])
    recorded, here = record["build"]["version"], capabilities(settings.backend).version
    if recorded != here:
        raise EncoderError(f"the episode was coded by {settings.backend} {recorded}, here is {here}")
    return clip, settings


def code_again(
    record: dict[str, Any],
    clip: Clip,
    settings: EncoderSettings,
    decide: Callable[[int, Frame], Decision],
    statistics: bytes | None = None,
) -> bytes:
    """The recorded stream, its packets joined; EncoderError if the bytes are others."""
    packets = [packet.data for packet in encode_packets(clip, settings, decide, statistics=statistics)]
    if digest(packets) != record["sha256"]:
        raise EncoderError("the replay gave other bytes than the record; the encoder or its settings are not the same")
    return b"".join(packets)


def _recorded_clip(recorded: dict[str, Any], clip: Clip | None) -> Clip:
    """The clip that a record speaks of: opened by its words unless given, and checked to hold the same pictures."""
    if clip is None:
        whole = open_clip(recorded["video"])
        last = recorded["first_frame"] + recorded["frames"]
        if last > whole.frame_count:
            raise ContentError(f"{recorded['video']} has {whole.frame_count} frames, the episode needs {last}")
        clip = whole.window(recorded["first_frame"], recorded["frames"])
    if clip.content_hash != recorded["hash"]:
        raise ContentError(f"{clip.name} holds other pictures than {recorded['name']} of the record; find that clip")
    return clip
