"""A ladder from a clip: every segment at every rung through our encoder layer, with its real size and quality.

site/
  ladder.json                    bitrates, sizes_bytes[segment][rung], psnr and ssim per segment
  manifest.mpd, master.m3u8 ...  the segments for players (`packaging`); rung 0 is the lowest

Each segment is encoded by itself: it begins with a key frame, refers to nothing outside, and lasts as long at every
rung. Its size is that of the file that a player downloads. Rungs may have pictures of different sizes; their quality is
that of the pictures enlarged to the source's size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from reelrl.content.quality import psnr
from reelrl.content.scaling import scaled, scaled_clip
from reelrl.encode import EncoderSettings, capabilities, encode_clip
from reelrl.encode.codecs.block_ssim import picture_ssim
from reelrl.encode.target.lessons import SETTINGS
from reelrl.encode.target.measured import at_crf
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
    """How a ladder is made.

    qps    constant quantisers, highest first
    kbps   instead of them target rates, lowest first, with the encoder's own VBR
    crfs   instead of them a CRF for each rung in random access, with `sizes`: (width, height) of its pictures
    """

    segment_s: float = 2.0
    qps: tuple[int, ...] = (55, 49, 43, 37, 31, 25)
    kbps: tuple[float, ...] = ()
    crfs: tuple[float, ...] = ()
    sizes: tuple[tuple[int, int], ...] = ()
    backend: str = "svtav1"
    preset: int = 10

    def __post_init__(self) -> None:
        if not 0 < self.segment_s <= 60:
            raise ConfigError(f"segment_s = {self.segment_s}; a segment lasts more than 0 and at most 60 s")
        if list(self.qps) != sorted(set(self.qps), reverse=True):
            raise ConfigError(f"qps = {self.qps}; give quantisers that fall from rung to rung")
        if list(self.kbps) != sorted(set(self.kbps)):
            raise ConfigError(f"kbps = {self.kbps}; give rates that rise from rung to rung")
        if len(self.crfs) != len(self.sizes):
            raise ConfigError(f"{len(self.crfs)} CRFs and {len(self.sizes)} sizes; each rung has one of both")
        if self.crfs and self.backend != SETTINGS.backend:
            raise ConfigError(
                f"crfs with backend = {self.backend}; they are those of {SETTINGS.backend}: use it, or qps"
            )

    def rungs(self, frames: int) -> list[EncoderSettings]:
        """What the encoder is asked for in segments of so many frames, lowest rate first."""
        if self.crfs:
            return [at_crf(replace(SETTINGS, preset=self.preset, ssim=True), crf) for crf in self.crfs]
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
    sizes = settings.sizes or ((clip.width, clip.height),) * len(rungs)
    quality = np.zeros((2, count, len(rungs)))
    with Packager(folder, clip, frames, sizes) as packager:
        for segment in range(count):
            window = clip.window(segment * frames, frames).load()
            packets: list[list[bytes]] = []
            for rung, (wanted, size) in enumerate(zip(rungs, sizes, strict=True)):
                coded = encode_clip(scaled_clip(window, *size), wanted)
                packets.append([packet.data for packet in coded.packets])
                quality[:, segment, rung] = _quality(window, coded)
                encoded(segment, rung)
            packager.add(packets)
        sizes_bytes = packager.finish()
        chunk_s = float(frames / clip.fps)
        kbps = sizes_bytes.mean(axis=0) / chunk_s / 125.0
        if not (np.diff(kbps) > 0).all():
            shown = ", ".join(f"{rate:.0f}" for rate in kbps)
            raise ContentError(
                f"{clip.name}: the rungs came out at {shown} kbit/s, which do not rise; "
                "spread the qps, kbps or qualities"
            )
        packager.put_in_place()
    ladder = Ladder(clip.name, kbps, chunk_s, sizes_bytes, {"psnr": quality[0], "ssim": quality[1]})
    write_ladder(ladder, own_path(folder / "ladder.json"))
    return ladder


def _quality(source: Clip, coded: Encoded) -> tuple[float, float]:
    """Mean luma PSNR and SSIM of the frames, of smaller pictures after they are enlarged."""
    if (coded.clip.width, coded.clip.height) == (source.width, source.height):
        similar = [packet.ssim[0] for packet in coded.packets if packet.ssim is not None]
        return coded.psnr_y, float(np.mean(similar))
    shown = [scaled(packet.recon, source.width, source.height) for packet in coded.packets if packet.recon is not None]
    pairs = list(zip(source, shown, strict=True))
    similar = [picture_ssim(wanted.planes, got.planes)[0] for wanted, got in pairs]
    return float(np.mean([psnr(wanted, got).y for wanted, got in pairs])), float(np.mean(similar))
