"""Encoding a whole clip: the short way to packets for scripts, baselines and the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from reelrl.content.clip import Clip
from reelrl.content.quality import psnr_of_mean_mse
from reelrl.content.write.video import write_bitstream
from reelrl.encode.codecs.backends import capabilities
from reelrl.encode.codecs.packet import Packet
from reelrl.encode.codecs.session import EncoderSession
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.errors import ConfigError
from reelrl.storage.cache import RAW, cached, key_of
from reelrl.storage.files import cache_dir, refuse_overwriting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import ArrayLike

    from reelrl.content.frame import Frame
    from reelrl.content.read.carried import Carried


class Decision(TypedDict, total=False):
    """What `send` takes besides a frame, by name."""

    qp: int | None
    base_qp: int | None
    offsets: ArrayLike | None
    kbps: float | None


@dataclass(frozen=True)
class Encoded:
    """A clip's packets with the totals people compare."""

    clip: Clip
    settings: EncoderSettings
    packets: tuple[Packet, ...]

    @property
    def size_bytes(self) -> int:
        return sum(packet.size for packet in self.packets)

    @property
    def kbps(self) -> float:
        return self.size_bytes * 8 / self.clip.duration_s / 1000

    @property
    def psnr_y(self) -> float:
        """Mean of the frames' luma PSNR in dB."""
        return sum(packet.psnr[0] for packet in self.packets) / len(self.packets)

    @property
    def psnr_y_of_mean(self) -> float:
        """Luma PSNR of the mean squared error: frames of bad quality weigh more."""
        errors = [packet.sse[0] for packet in self.packets if packet.sse is not None]
        return psnr_of_mean_mse(errors, self.clip.width * self.clip.height, depth=self.settings.bit_depth)

    def save(self, path: str | Path, carried: Carried | None = None) -> list[str]:
        """Write .ivf, .mp4, .webm or .mkv, playable everywhere; returns what of `carried` it cannot hold."""
        refuse_overwriting(path, *self.clip.files)
        packets = (packet.data for packet in self.packets)
        return write_bitstream(path, packets, self.clip.width, self.clip.height, self.clip.fps, carried)


def encode_packets(
    clip: Clip,
    settings: EncoderSettings,
    decide: Callable[[int, Frame], Decision] | None = None,
    *,
    statistics: bytes | None = None,
) -> Iterator[Packet]:
    """Packets of a clip in display order, as they come; `decide` says what each frame is sent with."""
    settings = settings.for_clip(clip)
    if statistics is None and wants_statistics(settings):
        statistics = first_pass(clip, settings)
    with EncoderSession(settings, statistics=statistics) as session:
        for number, frame in enumerate(clip):
            session.send(frame, **(decide(number, frame) if decide else {}))
            yield from session.receive()
        yield from session.flush()


def encode_clip(
    clip: Clip,
    settings: EncoderSettings,
    decide: Callable[[int, Frame], Decision] | None = None,
    *,
    statistics: bytes | None = None,
) -> Encoded:
    """The whole clip, encoded; reconstructions stay in memory unless `recon=False`."""
    packets = tuple(encode_packets(clip, settings, decide, statistics=statistics))
    return Encoded(clip, settings.for_clip(clip), packets)


def wants_statistics(settings: EncoderSettings) -> bool:
    """Whether an encode of a known clip is better for its first pass: libaom then finds the scene cuts."""
    return settings.rate_control == "cqp" and capabilities(settings.backend).quantisers_need_statistics


def first_pass(clip: Clip, settings: EncoderSettings) -> bytes:
    """Statistics of a clip for a second pass (two-pass VBR, or quantiser control in libaom), cached on disk."""
    settings = settings.for_clip(clip)
    able = capabilities(settings.backend)
    if settings.rate_control not in able.first_pass_in:
        have = " and ".join(able.first_pass_in)
        raise ConfigError(
            f"{able.title} has a first pass for {have} only, not for {settings.rate_control}; encode without statistics"
            if have
            else f"{able.title} has no first pass; encode without statistics"
        )
    saved = cache_dir() / "first-pass" / f"{_pass_key(clip, settings)}.bin"
    return cached(saved, lambda: fresh_first_pass(clip, settings), RAW)


def fresh_first_pass(clip: Clip, settings: EncoderSettings) -> bytes:
    """The same, made anew: for those who measure how long it takes."""
    with EncoderSession(settings.for_clip(clip), first_pass=True) as session:
        for frame in clip:
            session.send(frame)
        session.flush()
        return session.statistics()


def _pass_key(clip: Clip, settings: EncoderSettings) -> str:
    """Whatever the statistics depend on, as one name."""
    able = capabilities(settings.backend)
    picture = [settings.width, settings.height, str(settings.fps)]
    threads = settings.threads if "threads" in able.statistics_depend_on else 1
    others = [getattr(settings, name) for name in able.statistics_depend_on if name != "threads"]
    chosen = [settings.preset, threads, settings.tune, *others, settings.options]
    return key_of([clip.content_hash, settings.backend, able.version, *picture, *chosen])
