"""The record of a mini-GOP pass: enough to code it again to the same bytes, anywhere the same encoder runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reelrl.encode.codecs.backends import capabilities
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.codecs.whole_clip import encode_packets
from reelrl.encode.minigop.source import control_of
from reelrl.encode.superblock.record import digest, recorded_clip
from reelrl.errors import ConfigError, EncoderError
from reelrl.settings.config import from_mapping, to_mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reelrl.content.clip import Clip
    from reelrl.content.frame import Frame
    from reelrl.encode.codecs.whole_clip import Decision
    from reelrl.encode.minigop.source import InProcessSource

SCHEMA = 1


def record_of(source: InProcessSource, *, video: str, seed: int | None, totals: dict[str, Any]) -> dict[str, Any]:
    """A plain dict of a pass that has come to its end; `video` is what `open_clip` takes."""
    clip, episode = source.clip, source.episode
    packets = [packet.data for packet in source.packets]
    return {
        "schema": SCHEMA,
        "clip": {
            "video": video,
            "name": clip.name,
            "source": clip.source,
            "first_frame": 0,
            "frames": clip.frame_count,
            "hash": clip.content_hash,
        },
        "encoder": to_mapping(source.settings),
        "build": {"backend": source.settings.backend, "version": capabilities(source.settings.backend).version},
        "seed": seed,
        "goal": episode.goal,
        "kbps": episode.kbps,
        "feedback_lag": episode.feedback_lag,
        "deltas": list(source.deltas),
        "sent_qps": list(source.sent_qps),
        "totals": {"bytes": sum(map(len, packets)), **totals},
        "sha256": digest(packets),
    }


def replay(record: dict[str, Any], clip: Clip | None = None) -> bytes:
    """The recorded stream, coded again without probe or controller: its packets joined.

    The clip is opened by the record's own words unless given. Another content, another build of the encoder or other
    bytes are errors.
    """
    if record.get("schema") != SCHEMA or "sent_qps" not in record:
        raise ConfigError(f"no record of a mini-GOP pass of schema {SCHEMA}: it has {sorted(record)}; record it anew")
    clip = recorded_clip(record["clip"], clip)
    settings = from_mapping(EncoderSettings, record["encoder"])
    told, found = record["build"]["version"], capabilities(settings.backend).version
    if told != found:
        raise EncoderError(f"the episode was coded by {settings.backend} {told}, here is {found}")
    packets = [packet.data for packet in encode_packets(clip, settings, by_number(settings, record["sent_qps"]))]
    if digest(packets) != record["sha256"]:
        raise EncoderError("the replay gave other bytes than the record; the encoder or its settings are not the same")
    return b"".join(packets)


def by_number(settings: EncoderSettings, sent_qps: Sequence[int]) -> Callable[[int, Frame], Decision]:
    """Decisions for `encode_packets` that send what was sent before."""

    def decide(number: int, frame: Frame) -> Decision:  # noqa: ARG001 - recorded decisions need no pictures
        return control_of(settings, sent_qps[number], sent_qps[number - 1] if number else settings.qp)

    return decide
