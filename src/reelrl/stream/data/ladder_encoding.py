"""A ladder from a clip: every segment at every rung through our encoder layer, with its real size and quality.

ladder/
  ladder.json            bitrates, sizes_bytes[segment][rung], psnr and ssim per segment
  rung0/0000.ivf ...     the segments, each starting with a key frame; rung 0 is the lowest
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reelrl.encode import EncoderSettings, encode_clip
from reelrl.errors import ConfigError, ContentError
from reelrl.storage.files import writable_folder
from reelrl.storage.regular_files import own_folder, own_path
from reelrl.stream.data.ladders import Ladder, write_ladder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from reelrl.content.clip import Clip
    from reelrl.encode import Encoded


@dataclass(frozen=True, kw_only=True)
class LadderSettings:
    """How a ladder is made: constant quantisers (highest first), or target rates with the encoder's own VBR."""

    segment_s: float = 2.0
    qps: tuple[int, ...] = (55, 49, 43, 37, 31, 25)
    kbps: tuple[float, ...] = ()
    backend: str = "svtav1"
    preset: int = 10

    def __post_init__(self) -> None:
        if not 0 < self.segment_s <= 60:
            raise ConfigError(f"segment_s = {self.segment_s}; a segment lasts more than 0 and at most 60 s")
        if list(self.qps) != sorted(set(self.qps), reverse=True):
            raise ConfigError(f"qps = {self.qps}; give quantisers that fall from rung to rung")
        if list(self.kbps) != sorted(set(self.kbps)):
            raise ConfigError(f"kbps = {self.kbps}; give rates that rise from rung to rung")

    def rungs(self) -> list[EncoderSettings]:
        """What the encoder is asked for, lowest rate first."""
        common = {"backend": self.backend, "preset": self.preset, "ssim": True}
        if self.kbps:
            return [EncoderSettings(rate_control="vbr", target_kbps=rate, **common) for rate in self.kbps]  # type: ignore[arg-type]
        return [EncoderSettings(qp=qp, **common) for qp in self.qps]  # type: ignore[arg-type]


def encode_ladder(
    clip: Clip, folder: Path, settings: LadderSettings, encoded: Callable[[int, int], None] = lambda _s, _r: None
) -> Ladder:
    """Encode, write the segments and ladder.json, return the ladder. Frames after the last whole segment are left
    out.
    """
    frames = round(settings.segment_s * clip.fps)
    count = clip.frame_count // frames if frames else 0
    if count < 1:
        raise ContentError(
            f"{clip.name} lasts {clip.duration_s:.2f} s, less than one segment of {settings.segment_s:g} s; "
            "choose a longer clip or shorter segments"
        )
    rungs = settings.rungs()
    sizes, psnr, ssim = (np.zeros((count, len(rungs))) for _ in range(3))
    for segment in range(count):
        window = clip.window(segment * frames, frames).load()
        for rung, wanted in enumerate(rungs):
            coded = encode_clip(window, wanted)
            streams = writable_folder(own_folder(folder / f"rung{rung}"))
            coded.save(own_path(streams / f"{segment:04d}.ivf"))
            sizes[segment, rung] = coded.size_bytes
            psnr[segment, rung] = coded.psnr_y
            ssim[segment, rung] = _mean_ssim(coded)
            encoded(segment, rung)
    chunk_s = float(frames / clip.fps)
    kbps = sizes.mean(axis=0) / chunk_s / 125.0
    if not (np.diff(kbps) > 0).all():
        shown = ", ".join(f"{rate:.0f}" for rate in kbps)
        raise ContentError(
            f"{clip.name}: the rungs came out at {shown} kbit/s, which do not rise; spread the qps or kbps"
        )
    ladder = Ladder(clip.name, kbps, chunk_s, sizes, {"psnr": psnr, "ssim": ssim})
    write_ladder(ladder, own_path(folder / "ladder.json"))
    return ladder


def _mean_ssim(coded: Encoded) -> float:
    return float(np.mean([packet.ssim[0] for packet in coded.packets if packet.ssim is not None]))
