"""What one encode of a comparison at bitrates became: rate, quality, CPU, and how the clip is listed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reelrl.content.catalogue import split_of
from reelrl.encode.clip_choice import PRISTINE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.content.clip import Clip
    from reelrl.encode.minigop.evaluation.encode_cache import Encode


@dataclass(frozen=True)
class RatePoint:
    """One encode of one clip by one contestant.

    qp           of the crf encode whose rate is the target
    seconds      CPU, every pass included; `passes` says how many
    late_frames  that a player with `buffer_s` of delay would still be waiting for at their time
    peak_s       most of the buffer that was ever needed, in seconds of the target rate
    """

    contestant: str
    clip: str
    source: str
    split: str
    pristine: bool
    frames: int
    qp: int
    target_kbps: int
    kbps: float
    quality: dict[str, float]
    seconds: float
    passes: int
    late_frames: int
    peak_s: float
    deltas: list[float]
    content_hash: str
    stream_hash: str

    @classmethod
    def measured(
        cls,
        contestant: str,
        clip: Clip,
        made: Encode,
        *,
        qp: int,
        kbps: int,
        name: str = "",
        buffer: tuple[int, float] = (0, 0.0),
        deltas: Sequence[float] = (),
    ) -> RatePoint:
        """What an encode became; `name` where the clip is listed by another, `buffer` its late frames and peak."""
        return cls(
            contestant=contestant,
            clip=name or clip.name,
            source=clip.source,
            split=split_of(clip.source),
            pristine=clip.source.startswith(PRISTINE),
            frames=clip.frame_count,
            qp=qp,
            target_kbps=kbps,
            kbps=made.kbps,
            quality=made.quality,
            seconds=made.seconds,
            passes=made.passes,
            late_frames=buffer[0],
            peak_s=buffer[1],
            deltas=list(deltas),
            content_hash=clip.content_hash,
            stream_hash=made.stream_hash,
        )

    @property
    def error_percent(self) -> float:
        """How far the rate is from its target."""
        return 100 * (self.kbps / self.target_kbps - 1)

    def row(self) -> dict[str, Any]:
        """Flat, for a table."""
        record = {name: value for name, value in vars(self).items() if name not in ("quality", "deltas")}
        deltas = " ".join(f"{delta:g}" for delta in self.deltas)
        return record | {"error_percent": self.error_percent} | self.quality | {"deltas": deltas}
