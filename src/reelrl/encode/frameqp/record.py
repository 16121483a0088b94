"""The record of a pass over frames: enough to code it again to the same bytes, anywhere the same encoder runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reelrl.encode import record
from reelrl.encode.codecs.aom.first_pass import two_pass_statistics
from reelrl.encode.codecs.aom.two_pass import TwoPassSession
from reelrl.errors import ConfigError, EncoderError

if TYPE_CHECKING:
    from reelrl.content.clip import Clip
    from reelrl.encode.frameqp.source.in_process import FrameQpSource


def record_of(source: FrameQpSource, *, video: str, seed: int | None, totals: dict[str, Any]) -> dict[str, Any]:
    """A plain dict of a pass that has come to its end; `video` is what `open_clip` takes."""
    packets = [packet.data for packet in source.packets]
    return {
        **record.head(source.clip, source.settings, video=video, first_frame=0, seed=seed),
        "kbps": source.episode.kbps,
        "keep_delta_q": source.keep_delta_q,
        "deltas": list(source.deltas),
        "qindexes": list(source.qindexes),
        "gop_limits": list(source.gop_limits),
        "totals": {"bytes": sum(map(len, packets)), **totals},
        "sha256": record.digest(packets),
    }


def replay(recorded: dict[str, Any], clip: Clip | None = None) -> bytes:
    """The recorded stream, coded again without probe or controller: its packets joined.

    The clip is opened by the record's own words unless given. Another content, another build of the encoder or other
    bytes are errors.
    """
    if recorded.get("schema") != record.SCHEMA or "qindexes" not in recorded:
        raise ConfigError(
            f"no record of a pass over frames of schema {record.SCHEMA}: it has {sorted(recorded)}; record it anew"
        )
    clip, settings = record.read_head(recorded, clip)
    statistics = two_pass_statistics(clip, settings)
    with TwoPassSession(clip, settings, statistics, keep_delta_q=recorded["keep_delta_q"]) as session:
        for qindex, gop_limit in zip(recorded["qindexes"], recorded["gop_limits"], strict=True):
            if session.request() is None:
                break
            session.reply(qindex, gop_limit)
        ended = session.request() is None
        packets = [packet.data for packet in session.packets]
    if not ended or record.digest(packets) != recorded["sha256"]:
        raise EncoderError("the replay gave other bytes than the record; the encoder or its settings are not the same")
    return b"".join(packets)
