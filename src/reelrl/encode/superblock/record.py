"""The record of an episode: enough to code it again to the same bytes, anywhere the same encoder runs.

env.episode_record() ──► plain dict (JSON) ──► replay(record) ──► the same bytes, or an error that says what differs
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.encode import record
from reelrl.encode.codecs.whole_clip import first_pass, wants_statistics
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from reelrl.content.clip import Clip
    from reelrl.content.frame import Frame
    from reelrl.encode.codecs.settings import EncoderSettings
    from reelrl.encode.codecs.whole_clip import Decision


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
        **record.head(clip, settings, video=video, first_frame=first_frame, seed=seed),
        "qps": [qp for qp, _ in sent],
        "offsets": [None if offsets is None else offsets.tolist() for _, offsets in sent],
        "totals": totals,
        "sha256": record.digest(packets),
    }


def replay(recorded: dict[str, Any], clip: Clip | None = None) -> bytes:
    """The recorded stream, coded again: its packets joined.

    The clip is opened by the record's own words unless given. Another content, another build of the encoder or other
    bytes are errors.
    """
    if recorded.get("schema") != record.SCHEMA:
        raise ConfigError(
            f"the record has schema {recorded.get('schema')!r}, this version reads {record.SCHEMA}; record it anew"
        )
    clip, settings = record.read_head(recorded, clip)
    # An episode that was left early was still coded with the statistics of the whole clip.
    statistics = first_pass(clip, settings) if wants_statistics(settings) else None
    qps, offsets = recorded["qps"], recorded["offsets"]
    clip = clip if len(qps) == clip.frame_count else clip.window(0, len(qps))

    def decide(number: int, frame: Frame) -> Decision:  # noqa: ARG001 - recorded decisions need no pictures
        chosen = offsets[number]
        return {"qp": qps[number], "offsets": None if chosen is None else np.array(chosen, np.int32)}

    return record.code_again(recorded, clip, settings, decide, statistics)
