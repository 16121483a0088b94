"""A ladder from a clip: every segment at every rung through our encoder layer, with its real size and quality.

site/
  ladder.json                    bitrates, sizes_bytes[segment][rung], psnr and ssim per segment
  manifest.mpd, master.m3u8 ...  the segments for players (`packaging`); rung 0 is the lowest

Each segment is encoded by itself: it begins with a key frame, refers to nothing outside, and lasts as long at every
rung. Its size is that of the file that a player downloads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reelrl.encode import EncoderSettings, capabilities, encode_clip
from reelrl.errors import ConfigError, ContentError
from reelrl.storage.regular_files import own_path
from reelrl.stream.data.ladders import Ladder, write_ladder
from reelrl.stream.data.packaging import Packager

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

    def rungs(self, frames: int) -> list[EncoderSettings]:
        """What the encoder is asked for in segments of so many frames, lowest rate first."""
        common = {"backend": self.backend, "preset": self.preset, "ssim": True}
        if self.kbps:
            # An encoder that reorders pictures meets a rate over time only when it may.
            common["structure"] = "random_access" if capabilities(self.backend).minigops else "low_delay"
            common["keyint"] = frames
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
    rungs = settings.rungs(frames)
    psnr, ssim = np.zeros((count, len(rungs))), np.zeros((count, len(rungs)))
    with Packager(folder, clip, frames) as packager:
        for segment in range(count):
            window = clip.window(segment * frames, frames).load()
            packets: list[list[bytes]] = []
            for rung, wanted in enumerate(rungs):
                coded = encode_clip(window, wanted)
                packets.append([packet.data for packet in coded.packets])
                psnr[segment, rung] = coded.psnr_y
                ssim[segment, rung] = _mean_ssim(coded)
                encoded(segment, rung)
            packager.add(packets)
        sizes = packager.finish()
        chunk_s = float(frames / clip.fps)
        kbps = sizes.mean(axis=0) / chunk_s / 125.0
        if not (np.diff(kbps) > 0).all():
            shown = ", ".join(f"{rate:.0f}" for rate in kbps)
            raise ContentError(
                f"{clip.name}: the rungs came out at {shown} kbit/s, which do not rise; spread the qps or kbps"
            )
        packager.put_in_place()
    ladder = Ladder(clip.name, kbps, chunk_s, sizes, {"psnr": psnr, "ssim": ssim})
    write_ladder(ladder, own_path(folder / "ladder.json"))
    return ladder


def _mean_ssim(coded: Encoded) -> float:
    return float(np.mean([packet.ssim[0] for packet in coded.packets if packet.ssim is not None]))
