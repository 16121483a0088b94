"""The record of an episode: enough to code it again to the same bytes, anywhere the same encoder runs.

env.episode_record() ──► plain dict (JSON) ──► replay(record) ──► the same bytes, or an error that says what differs
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.content.sources import open_clip
from reelrl.encode.codecs.backends import capabilities
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.codecs.whole_clip import encode_packets, first_pass, wants_statistics
from reelrl.errors import ConfigError, ContentError, EncoderError
from reelrl.settings.config import from_mapping, to_mapping

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from reelrl.content.clip import Clip
    from reelrl.content.frame import Frame
    from reelrl.encode.codecs.whole_clip import Decision

SCHEMA = 1


def record_of(
    clip: Clip,
    *,
    video: str,
    first_frame: int,
    settings: EncoderSettings,
    seed: int | None,
    sent: Sequence[tuple[int | None, NDArray[np.int32] | None]],
    packets: Sequence[bytes],
    totals: dict[str, Any],
) -> dict[str, Any]:
    """A plain dict. `sent` is what each frame was sent with: QP and offsets, None where the encoder was left alone."""
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
        "qps": [qp for qp, _ in sent],
        "offsets": [None if offsets is None else offsets.tolist() for _, offsets in sent],
        "totals": totals,
        "sha256": digest(packets),
    }


def digest(packets: Sequence[bytes]) -> str:
    """SHA-256 of the packets joined, as hex."""
    whole = hashlib.sha256()
    for packet in packets:
        whole.update(packet)
    return whole.hexdigest()


def replay(record: dict[str, Any], clip: Clip | None = None) -> bytes:
    """The recorded stream, coded again: its packets joined.

    The clip is opened by the record's own words unless given. Another content, another build of the encoder or other
    bytes are errors.
    """
    if record.get("schema") != SCHEMA:
        raise ConfigError(
            f"the record has schema {record.get('schema')!r}, this version reads {SCHEMA}; record it anew"
        )
    clip = recorded_clip(record["clip"], clip)
    settings = from_mapping(EncoderSettings, record["encoder"])
    build, found = record["build"], capabilities(settings.backend).version
    if build["version"] != found:
        raise EncoderError(f"the episode was coded by {settings.backend} {build['version']}, here is {found}")
    # An episode that was left early was still coded with the statistics of the whole clip.
    statistics = first_pass(clip, settings) if wants_statistics(settings) else None
    qps, offsets = record["qps"], record["offsets"]
    clip = clip if len(qps) == clip.frame_count else clip.window(0, len(qps))

    def decide(number: int, frame: Frame) -> Decision:  # noqa: ARG001 - recorded decisions need no pictures
        chosen = offsets[number]
        return {"qp": qps[number], "offsets": None if chosen is None else np.array(chosen, np.int32)}

    packets = [packet.data for packet in encode_packets(clip, settings, decide, statistics=statistics)]
    if digest(packets) != record["sha256"]:
        raise EncoderError("the replay gave other bytes than the record; the encoder or its settings are not the same")
    return b"".join(packets)


def recorded_clip(told: dict[str, Any], clip: Clip | None) -> Clip:
    """The clip that a record speaks of: opened by its words unless given, and checked to hold the same pictures."""
    if clip is None:
        whole = open_clip(told["video"])
        last = told["first_frame"] + told["frames"]
        if last > whole.frame_count:
            raise ContentError(f"{told['video']} has {whole.frame_count} frames, the episode needs {last}")
        clip = whole.window(told["first_frame"], told["frames"])
    if clip.content_hash != told["hash"]:
        raise ContentError(f"{clip.name} holds other pictures than {told['name']} of the record; find that clip")
    return clip
