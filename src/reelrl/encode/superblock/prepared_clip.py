"""A clip made ready for episodes: everything that is computed once, kept on disk, and the same in each of them.

clip ──► features, first pass, baseline, weights ──► Subject ──► outcome(frame, packet, offsets)
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from reelrl.encode.codecs.packet import FrameType
from reelrl.encode.codecs.whole_clip import first_pass, wants_statistics
from reelrl.encode.features import clip_features
from reelrl.encode.superblock.baseline import baseline_of, plane_psnr
from reelrl.encode.superblock.rewards import Outcome
from reelrl.encode.superblock.states import AbstractState, BaselineObservation, Superblocks, checked_observation
from reelrl.encode.superblock.weighting import weigh_clip, weighted_psnr

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reelrl.content.clip import Clip
    from reelrl.content.frame import Frame
    from reelrl.encode.codecs.packet import Packet
    from reelrl.encode.codecs.settings import EncoderSettings
    from reelrl.encode.superblock.rewards import Scores
    from reelrl.encode.superblock.weighting import Weighing


class Subject:
    """A clip, what its source says about each superblock, and what the encoder makes of it when left alone."""

    def __init__(
        self,
        clip: Clip,
        settings: EncoderSettings,
        *,
        target_kbps: float | None = None,
        weights: Weighing | None = None,
        lambda_rd: float = 0.1,
    ) -> None:
        self.clip = clip
        self.settings = settings
        self.lambda_rd = lambda_rd
        self.features: NDArray[np.float32] = clip_features(clip)
        self.statistics = first_pass(clip, settings) if wants_statistics(settings) else None
        self.baseline = baseline_of(clip, settings, target_kbps, self.statistics)
        self.weight_maps = None if weights is None else weigh_clip(clip, weights)
        # Plain numbers: every step takes one of each.
        self.sizes: list[int] = self.baseline.bytes.tolist()
        self.psnr: list[Scores] = [(y, cb, cr) for y, cb, cr in self.baseline.psnr.tolist()]
        self.frame_types = [FrameType(kind) for kind in self.baseline.frame_types.tolist()]
        self._ssim: list[Scores] = [(y, cb, cr) for y, cb, cr in self.baseline.ssim.tolist()]
        self._caps = self.baseline.psnr_cap
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
        """What a state is told of the baseline pass."""
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
        )

    def _weigh_baseline(self) -> list[float] | None:
        maps = self.weight_maps
        if maps is None:
            return None
        pairs = zip(self.clip, self.baseline.pictures(), strict=True)
        return [weighted_psnr(source, coded, maps.frame(number)) for number, (source, coded) in enumerate(pairs)]
