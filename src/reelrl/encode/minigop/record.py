"""The record of a mini-GOP pass: enough to code it again to the same bytes, anywhere the same encoder runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reelrl.encode import record
from reelrl.encode.minigop.source.in_process import control_of
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reelrl.content.clip import Clip
    from reelrl.content.frame import Frame
    from reelrl.encode.codecs.settings import EncoderSettings
    from reelrl.encode.codecs.whole_clip import Decision
    from reelrl.encode.minigop.source.in_process import InProcessSource


def record_of(source: InProcessSource, *, video: str, seed: int | None, totals: dict[str, Any]) -> dict[str, Any]:
    """A plain dict of a pass that has come to its end; `video` is what `open_clip` takes."""
    clip, episode = source.clip, source.episode
    packets = [packet.data for packet in source.packets]
    return {
        **record.head(clip, source.settings, video=video, first_frame=0, seed=seed),
        "goal": episode.goal,
        "kbps": episode.kbps,
        "feedback_lag": episode.feedback_lag,
        "deltas": list(source.deltas),
        "sent_qps": list(source.sent_qps),
        "totals": {"bytes": sum(map(len, packets)), **totals},
        "sha256": record.digest(packets),
    }


def replay(recorded: dict[str, Any], clip: Clip | None = None) -> bytes:
    """The recorded stream, coded again without probe or controller: its packets joined.

    The clip is opened by the record's own words unless given. Another content, another build of the encoder or other
    bytes are errors.
    """
    if recorded.get("schema") != record.SCHEMA or "sent_qps" not in recorded:
        raise ConfigError(
            f"no record of a mini-GOP pass of schema {record.SCHEMA}: it has {sorted(recorded)}; record it anew"
        )
    clip, settings = record.read_head(recorded, clip)
    return record.code_again(recorded, clip, settings, by_number(settings, recorded["sent_qps"]))


def by_number(settings: EncoderSettings, sent_qps: Sequence[int]) -> Callable[[int, Frame], Decision]:
    """Decisions for `encode_packets` that send what was sent before."""

    def decide(number: int, frame: Frame) -> Decision:  # noqa: ARG001 - recorded decisions need no pictures
        return control_of(settings, sent_qps[number], sent_qps[number - 1] if number else settings.qp)

    return decide
