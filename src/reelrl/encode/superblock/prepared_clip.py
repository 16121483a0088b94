"""A clip made ready for episodes: everything that is computed once, cached on disk, and the same in each of them.

clip ──► features, first pass, baseline, weights ──► PreparedClip ──► outcome(frame, packet, offsets)
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from reelrl.content.clip import Clip
from reelrl.content.quality import psnr_from_sse
from reelrl.encode.clip_choice import opened, refuse_10_bit
from reelrl.encode.codecs.control import check_maps_are_obeyed, check_openable
from reelrl.encode.codecs.packet import FrameType
from reelrl.encode.codecs.whole_clip import first_pass, wants_statistics
from reelrl.encode.features import clip_features
from reelrl.encode.superblock.baseline import baseline_of, plane_psnr
from reelrl.encode.superblock.over_time import rule_shifts
from reelrl.encode.superblock.rewards import Outcome, Trade, checked_lambda
from reelrl.encode.superblock.states import AbstractState, BaselineObservation, Superblocks, checked_observation
from reelrl.encode.superblock.weighting import weigh_clip, weighted_psnr
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from reelrl.content.frame import Frame
    from reelrl.encode.codecs.packet import Packet
    from reelrl.encode.codecs.settings import EncoderSettings
    from reelrl.encode.superblock.baseline import Baseline
    from reelrl.encode.superblock.rewards import Scores
    from reelrl.encode.superblock.weighting import Weighing

_TRADE_STEPS = 4  # QP


class PreparedClip:
    """A clip, what its source says about each superblock, and what the encoder makes of it when left alone.

    Any number of environments may share it: nothing in it changes any more. `shifts` are QP steps of whole frames by
    the rule, where whole frames may be moved: then the baseline has them too.
    """

    def __init__(
        self,
        video: str | Path | Clip,
        encoder: EncoderSettings,
        *,
        max_frames: int | None = None,
        target_kbps: float | None = None,
        weights: Weighing | None = None,
        lambda_rd: float = 0.1,
        over_time: bool = False,
    ) -> None:
        self.lambda_rd = checked_lambda(lambda_rd)
        self.name = video.name if isinstance(video, Clip) else str(video)
        self.clip = clip = opened(video, max_frames)
        refuse_10_bit(clip, "the superblock environment")
        self.settings = settings = checked_encoder(encoder, target_kbps, over_time=over_time).for_clip(clip)
        check_openable(settings)
        self.target_kbps = target_kbps
        self.features: NDArray[np.float32] = clip_features(clip)
        self.statistics = first_pass(clip, settings) if wants_statistics(settings) else None
        self.shifts = rule_shifts(self.features, clip.width, clip.height) if over_time else None
        self.baseline = baseline_of(clip, settings, target_kbps, self.statistics, self.shifts)
        self.weight_maps = None if weights is None else weigh_clip(clip, weights)
        # Plain numbers: every step takes one of each.
        self.sizes: list[int] = self.baseline.bytes.tolist()
        self.psnr: list[Scores] = [(y, cb, cr) for y, cb, cr in self.baseline.psnr.tolist()]
        self.frame_types = [FrameType(kind) for kind in self.baseline.frame_types.tolist()]
        self._ssim: list[Scores] = [(y, cb, cr) for y, cb, cr in self.baseline.ssim.tolist()]
        self._caps = self.baseline.psnr_cap
        self.trade = self._trade() if over_time else None
        self.weighted_psnr: list[float] | None = self._weigh_baseline()

    @property
    def weights(self) -> NDArray[np.float32]:
        """Mean weight of each superblock, [frames, superblocks]; ones where there are no weights."""
        if self.weight_maps is None:
            return np.ones((self.clip.frame_count, self.clip.superblock_count), np.float32)
        return self.weight_maps.blocks

    def described(self, number: int, qp: int) -> Superblocks:
        """The superblocks of a frame as states see them."""
        return Superblocks(self.features[number], qp, self.clip.width, self.clip.height)

    def baseline_observations(self) -> list[BaselineObservation]:
        """What a state may know of the baseline pass."""
        frames = enumerate(zip(self.frame_types, self.baseline.qp.tolist(), self.sizes, self.psnr, strict=True))
        return [
            BaselineObservation(number, kind, self.described(number, qp), size, psnr)
            for number, (kind, qp, size, psnr) in frames
        ]

    def baseline_states(self, state: AbstractState) -> NDArray[np.float32]:
        """What the state gives while the baseline is coded, [frames, length]."""
        listens = type(state).feedback is not AbstractState.feedback
        recons = self.baseline.pictures() if listens else repeat(None, self.clip.frame_count)
        no_offsets = np.zeros(self.clip.superblock_count, np.int32)
        length = state.get_observation_length()
        seen = []
        state.reset()
        for frame, recon, observed in zip(self.clip, recons, self.baseline_observations(), strict=True):
            number, sbs = observed.picture_number, observed.superblocks
            given = state.get_observation(frame, sbs, observed.frame_type, number)
            seen.append(checked_observation(given, length, number))
            if recon is not None:
                state.feedback(
                    self._outcome(
                        number,
                        observed.frame_type,
                        sbs.qp,
                        observed.size_bytes,
                        observed.psnr,
                        no_offsets,
                        frame,
                        recon,
                    )
                )
        return np.stack(seen)

    def outcome(self, frame: Frame, packet: Packet, offsets: NDArray[np.int32]) -> Outcome:
        """A coded frame beside the baseline's."""
        if packet.sse is None or packet.recon is None:
            raise ValueError("this packet carries no error sums or no reconstruction")
        psnr = plane_psnr(packet.sse, packet.luma_pixels, self._caps)
        return self._outcome(
            packet.number, packet.frame_type, packet.qp, packet.size, psnr, offsets, frame, packet.recon
        )

    def _outcome(
        self,
        number: int,
        frame_type: FrameType,
        qp: int,
        size_bytes: int,
        psnr: Scores,
        offsets: NDArray[np.int32],
        source: Frame,
        recon: Frame,
    ) -> Outcome:
        return Outcome(
            number=number,
            frame_type=frame_type,
            qp=qp,
            size_bytes=size_bytes,
            psnr=psnr,
            offsets=offsets,
            baseline_size_bytes=self.sizes[number],
            baseline_psnr=self.psnr[number],
            baseline_ssim=self._ssim[number],
            lambda_rd=self.lambda_rd,
            source=source,
            recon=recon,
            weights=None if self.weight_maps is None else self.weight_maps.frame(number),
            baseline_weighted_psnr=None if self.weighted_psnr is None else self.weighted_psnr[number],
            trade=self.trade,
        )

    def _trade(self) -> Trade:
        """What bits are worth, from the baseline and the same a few QP steps away."""
        away = _TRADE_STEPS if self.settings.qp + _TRADE_STEPS <= 63 else -_TRADE_STEPS
        settings = replace(self.settings, qp=self.settings.qp + away)
        other = baseline_of(self.clip, settings, None, self.statistics, self.shifts)
        octaves = math.log2(self.baseline.total_bytes / other.total_bytes)
        gains = [ours - theirs for ours, theirs in zip(_levels(self.baseline), _levels(other), strict=True)]
        error = float(self.baseline.sse[:, 0].mean()) / self.baseline.luma_pixels / 255**2
        # A clip that costs the same at any QP pays for no bit.
        worth = sum(gains) / 2 / octaves if octaves else 0.0
        return Trade(max(worth, 0.0), self.baseline.total_bytes / self.clip.frame_count, max(error, 1e-10))

    def _weigh_baseline(self) -> list[float] | None:
        maps = self.weight_maps
        if maps is None:
            return None
        pairs = zip(self.clip, self.baseline.pictures(), strict=True)
        return [weighted_psnr(source, coded, maps.frame(number)) for number, (source, coded) in enumerate(pairs)]


def _levels(baseline: Baseline) -> tuple[float, float]:
    """Mean of luma PSNRs, and PSNR of the mean error."""
    mean_sse = float(baseline.sse[:, 0].mean())
    return float(baseline.psnr[:, 0].mean()), psnr_from_sse(mean_sse, baseline.luma_pixels)


def checked_encoder(
    settings: EncoderSettings, target_kbps: float | None, *, over_time: bool = False
) -> EncoderSettings:
    """Settings under which the encoder obeys maps and answers each frame at once."""
    if settings.steers_rate:
        raise ConfigError(
            f"rate_control = {settings.rate_control}: the encoder would ignore every map; use cqp, and target_kbps= of "
            "the environment to hold a bitrate"
        )
    check_maps_are_obeyed(settings)
    if not settings.low_delay:
        raise ConfigError("structure = random_access: a step needs its frame's packet at once; use low_delay")
    if target_kbps is not None:
        if not (math.isfinite(target_kbps) and target_kbps > 0):
            raise ConfigError(f"target_kbps = {target_kbps}; a bitrate is above zero")
        if over_time:
            raise ConfigError(
                f"target_kbps = {target_kbps} with an action over time: both would move the frames' QP; leave one out"
            )
    if target_kbps is not None or over_time:
        settings = replace(settings, picture_qp=True)
    return replace(settings, recon=True)
