"""`SuperblockQpEnv`: place QP offsets on the superblocks of each frame. Gymnasium id `reelrl/SuperblockQP-v0`."""

from __future__ import annotations

import math
import warnings
from contextlib import suppress
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import EzPickle
from numpy.typing import NDArray

from reelrl import names
from reelrl.content.clip import Clip
from reelrl.content.frame import frame_bytes
from reelrl.content.sources import open_clip
from reelrl.content.writers import write_bitstream
from reelrl.encode import episodes
from reelrl.encode.baseline import Baseline, FrameQp, baseline_of, plane_psnr
from reelrl.encode.coding import first_pass, wants_statistics
from reelrl.encode.features import clip_features
from reelrl.encode.maps import MAP_FEATURES, ZERO_MAP, map_inputs, map_of
from reelrl.encode.packet import FrameType
from reelrl.encode.rewards import REWARDS, Outcome, weigh_clip, weighted_gain, weighted_psnr
from reelrl.encode.session import EncoderSession, check_openable
from reelrl.encode.settings import MAX_OFFSET, EncoderSettings
from reelrl.encode.states import (
    LARGEST,
    AbstractState,
    BaselineObservation,
    ClipView,
    Normalisation,
    Superblocks,
    checked_observation,
)
from reelrl.errors import ConfigError, InvalidRewardError, InvalidStateError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reelrl.content.frame import Frame
    from reelrl.encode.packet import Packet
    from reelrl.encode.rewards import Reward
    from reelrl.encode.states import StateFactory
    from reelrl.encode.weighting import Weighing, WeightMaps

Observation = NDArray[np.float32]
Offsets = NDArray[np.int32]

LEVELS = 2 * MAX_OFFSET + 1
ACTIONS = ("map", "features")
USUAL_WEIGHTS = "centre"
IN_MEMORY_BYTES = 256 * 2**20
"""Clips up to this size are read once and held; larger ones are read anew in each episode."""


class SuperblockQpEnv(gymnasium.Env[Observation, Any], EzPickle):
    """Where inside each frame an AV1 encoder spends its bits.

    ## Observation
    A float32 vector built by `state` from the frame about to be coded, normalised by what the state gave in the
    baseline pass and cut at ten deviations; `normalise=False` leaves it as it is. After the last frame it is zero.

    ## Action
    action="map": MultiDiscrete([7] * superblocks), value v adds v - 3 to the QP of its superblock. All 3s, or None,
    send no map at all; `ZERO_MAP` sends zeros. action="features": Box(-1, 1), weights of `MAP_FEATURES` for a map.

    ## Reward
    By name, or a function of an `Outcome`: "psnr_gain" luma dB above the baseline's, "rd" dB and bytes together by
    `lambda_rd`, "ssim", "weighted" dB under `weights` (moving, centre, detail, an array, or a function).

    ## Episode
    One step is one frame, in display order; the last frame of the clip, or of its first `max_frames`, terminates.
    `outcome` is what became of the frame last coded, reconstruction included.

    ## Arguments
    `target_kbps` holds a bitrate by moving the frames' QP (the encoder's own rate control would ignore maps). With
    `output_dir` the baseline's stream is saved there as baseline_output.ivf.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - gymnasium declares it as a plain class attribute

    def __init__(
        self,
        video_path: str | Path | Clip,
        output_dir: str | Path | None = None,
        *,
        lambda_rd: float = 0.1,
        state: str | StateFactory = "naive",
        reward: str | Reward = "psnr_gain",
        encoder: EncoderSettings = EncoderSettings(backend="aom", picture_qp=True),  # noqa: B008 - frozen
        max_frames: int | None = None,
        action: str = "map",
        target_kbps: float | None = None,
        weights: Weighing | None = None,
        normalise: bool | Normalisation = True,
    ) -> None:
        EzPickle.__init__(
            self, video_path, output_dir, lambda_rd=lambda_rd, state=state, reward=reward, encoder=encoder,
            max_frames=max_frames, action=action, target_kbps=target_kbps, weights=weights, normalise=normalise,
        )  # fmt: skip
        self._session: EncoderSession | None = None
        self.lambda_rd = _checked_lambda(lambda_rd)
        self._reward = _reward_of(reward)
        make_state: StateFactory = names.resolve(names.STATES, state) if isinstance(state, str) else state
        self._video = video_path.name if isinstance(video_path, Clip) else str(video_path)
        self.clip = _opened(video_path, max_frames)
        self.settings = _checked_encoder(encoder, target_kbps).for_clip(self.clip)
        check_openable(self.settings)
        self.target_kbps = target_kbps
        self.grid = self.clip.grid
        self.superblocks = self.clip.superblock_count
        self.features: NDArray[np.float32] = clip_features(self.clip)
        self._statistics = first_pass(self.clip, self.settings) if wants_statistics(self.settings) else None
        self.baseline: Baseline = baseline_of(self.clip, self.settings, target_kbps, self._statistics)
        if self._reward is weighted_gain and weights is None:
            weights = USUAL_WEIGHTS
        self.weight_maps: WeightMaps | None = None if weights is None else weigh_clip(self.clip, weights)
        self._prepare_baseline()
        self._prepare_action(action)
        self._prepare_state(make_state, normalise)
        if output_dir is not None:
            self._save(Path(output_dir) / "baseline_output.ivf", self.baseline.packets)
        self._frames: Iterator[Frame] = iter(())
        self._frame: Frame | None = None
        self._number = 0
        self._seed: int | None = None
        self._packets: list[bytes] = []
        self._complete: list[bytes] = []
        self._sent: list[tuple[int | None, Offsets | None]] = []
        self._reward_sum = self._psnr_sum = 0.0
        self.outcome: Outcome | None = None

    # -- what is known of the clip -----------------------------------------------------------------------------------

    @property
    def weights(self) -> NDArray[np.float32]:
        """Mean weight of each superblock, [frames, superblocks]; ones where there are no weights."""
        if self.weight_maps is None:
            return np.ones((self.clip.frame_count, self.superblocks), np.float32)
        return self.weight_maps.blocks

    def _prepare_baseline(self) -> None:
        caps = self.baseline.psnr_cap
        self._caps = caps
        self._baseline_sizes: list[int] = self.baseline.bytes.tolist()
        self._baseline_psnr = [tuple(row) for row in self.baseline.psnr.tolist()]
        self._baseline_ssim = [tuple(row) for row in self.baseline.ssim.tolist()]
        self._frame_types = [FrameType(kind) for kind in self.baseline.frame_types.tolist()]
        self.baseline_weighted_psnr: list[float] | None = None
        if self.weight_maps is not None:
            pairs = zip(self.clip, self.baseline.pictures(), strict=True)
            self.baseline_weighted_psnr = [
                weighted_psnr(source, coded, self.weight_maps.frame(number))
                for number, (source, coded) in enumerate(pairs)
            ]

    def _prepare_action(self, action: str) -> None:
        if action not in ACTIONS:
            raise ConfigError(f"unknown action {action!r}{names.did_you_mean(action, ACTIONS)}")
        self.action = action
        self._no_offsets = np.zeros(self.superblocks, np.int32)
        self.action_space: spaces.Space[Any]
        if action == "map":
            self.action_space = spaces.MultiDiscrete([LEVELS] * self.superblocks)
        else:
            self.action_space = spaces.Box(-1, 1, (len(MAP_FEATURES),), np.float32)
            self._inputs = map_inputs(self.features, self.grid, self.weights)

    def _prepare_state(self, make_state: StateFactory, normalise: bool | Normalisation) -> None:
        told = [
            BaselineObservation(i, self._frame_types[i], self._described(i, qp), size, psnr)
            for i, (qp, size, psnr) in enumerate(
                zip(self.baseline.qp.tolist(), self._baseline_sizes, self._baseline_psnr, strict=True)
            )
        ]
        self.state = make_state(ClipView(self.clip), told)
        self._length = self.state.get_observation_length()
        space = self.state.get_observation_space()
        self.normalisation: Normalisation | None = None
        if normalise is False:
            # Values are finite, so float32's own limits bound them; checkers dislike infinite spaces.
            limit = np.finfo(np.float32).max
            low, high = np.clip(space.low, -limit, limit), np.clip(space.high, -limit, limit)
            self.observation_space = spaces.Box(low, high, dtype=np.float32)
            return
        groups = self.state.get_groups()
        self.normalisation = (
            normalise
            if isinstance(normalise, Normalisation)
            else Normalisation.learn(self._baseline_states(told), groups)
        )
        self._mean, self._scale = self.normalisation.spread(groups)
        self.observation_space = spaces.Box(-LARGEST, LARGEST, (self._length,), np.float32)

    def _baseline_states(self, told: list[BaselineObservation]) -> Observation:
        """What the state gives while the baseline is coded, [frames, length]."""
        listens = type(self.state).feedback is not AbstractState.feedback
        recons = self.baseline.pictures() if listens else repeat(None, len(told))
        self.state.reset()
        seen = []
        for frame, recon, facts in zip(self.clip, recons, told, strict=True):
            number = facts.picture_number
            given = self.state.get_observation(frame, facts.superblocks, facts.frame_type, number)
            seen.append(checked_observation(given, self._length, number))
            if recon is not None:
                psnr, qp = self._baseline_psnr[number], facts.superblocks.qp
                self.state.feedback(
                    self._outcome(frame, recon, facts.frame_type, qp, facts.size_bytes, psnr, self._no_offsets, number)
                )
        return np.stack(seen)

    # -- episodes ----------------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Open the encoder anew; an episode under way is dropped."""
        super().reset(seed=seed)
        if options:
            raise ConfigError(f"reset options {sorted(options)} are unknown; there are none")
        self._stop()
        self._seed = seed if seed is not None else self._seed
        self._session = EncoderSession(self.settings, statistics=self._statistics)
        self._qps = FrameQp(self.settings, self.target_kbps)
        self._packets, self._sent = [], []
        self._reward_sum = self._psnr_sum = 0.0
        self._number = 0
        self._frames = iter(self.clip)
        self.state.reset()
        return self._observe(), {"frame_number": 0}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Code one frame."""
        if self._session is None or self._frame is None:
            raise gymnasium.error.ResetNeeded("the clip has ended or not begun; call reset() first")
        offsets = self._offsets_of(action)
        frame, number = self._frame, self._number
        # Whatever fails from here on ends the episode: the frame is in the stream, or half in it.
        self._frame = None
        self._session.send(frame, qp=self._qp, offsets=offsets)
        (packet,) = self._session.receive()
        self._qps.update(packet)
        self._packets.append(packet.data)
        self._sent.append((self._qp, offsets))
        outcome = self._outcome_of(packet, frame, offsets)
        reward = self._rewarded(outcome)
        self.state.feedback(outcome)
        self.outcome = outcome
        self._reward_sum += reward
        self._psnr_sum += outcome.psnr[0]
        self._number = number + 1
        ended = self._number == self.clip.frame_count
        if ended:
            self._complete = self._packets
            self._stop()
        return self._ending() if ended else self._observe(), reward, ended, False, self._info(outcome, offsets)

    def close(self) -> None:
        """End the encoder and its thread; `reset` starts another."""
        self._stop()

    def __del__(self) -> None:
        # Nobody listens to an error here, and the interpreter may be half gone.
        with suppress(Exception):
            self._stop()

    def _stop(self) -> None:
        session, self._session, self._frame = getattr(self, "_session", None), None, None
        self._frames = iter(())
        if session is not None:
            session.close()

    def _observe(self) -> Observation:
        """The state of the next frame, which is read here."""
        number = self._number
        self._frame = frame = next(self._frames)
        self._qp = self._qps.next(number)
        described = self._described(number, self.settings.qp if self._qp is None else self._qp)
        try:
            given = self.state.get_observation(frame, described, self._frame_types[number], number)
            return self._normalised(checked_observation(given, self._length, number))
        except BaseException:
            self._frame = None
            raise

    def _ending(self) -> Observation:
        return np.zeros(self._length, np.float32)

    def _normalised(self, values: Observation) -> Observation:
        if self.normalisation is None:
            return values.copy()
        scaled = (values - self._mean) * self._scale
        return np.clip(scaled, -LARGEST, LARGEST, out=scaled)

    def _described(self, number: int, qp: int) -> Superblocks:
        return Superblocks(self.features[number], qp, self.clip.width, self.clip.height)

    # -- one frame ---------------------------------------------------------------------------------------------------

    def _offsets_of(self, action: Any) -> Offsets | None:
        """What to send; None for no map."""
        if action is None:
            return None
        if action is ZERO_MAP:
            return self._no_offsets
        if self.action == "map":
            offsets = _checked_levels(action, self.superblocks)
        else:
            offsets = map_of(self._inputs[self._number], _checked_weights(action))
        return offsets if offsets.any() else None

    def _outcome_of(self, packet: Packet, frame: Frame, offsets: Offsets | None) -> Outcome:
        assert packet.sse is not None  # noqa: S101 - both encoders measure every frame
        assert packet.recon is not None  # noqa: S101 - the settings ask for it
        psnr = plane_psnr(packet.sse, packet.luma_pixels, self._caps)
        sent = self._no_offsets if offsets is None else offsets
        return self._outcome(frame, packet.recon, packet.frame_type, packet.qp, packet.size, psnr, sent, packet.number)

    def _outcome(
        self,
        frame: Frame,
        recon: Frame,
        frame_type: FrameType,
        qp: int,
        size_bytes: int,
        psnr: Any,
        offsets: Offsets,
        number: int,
    ) -> Outcome:
        weighted = self.baseline_weighted_psnr
        return Outcome(
            number=number,
            frame_type=frame_type,
            qp=qp,
            size_bytes=size_bytes,
            psnr=psnr,
            offsets=offsets,
            baseline_size_bytes=self._baseline_sizes[number],
            baseline_psnr=self._baseline_psnr[number],
            baseline_ssim=self._baseline_ssim[number],
            lambda_rd=self.lambda_rd,
            source=frame,
            recon=recon,
            weights=None if self.weight_maps is None else self.weight_maps.frame(number),
            baseline_weighted_psnr=None if weighted is None else weighted[number],
        )

    def _rewarded(self, outcome: Outcome) -> float:
        try:
            reward = float(self._reward(outcome))
        except Exception as error:
            error.add_note(f"raised by the reward of frame {outcome.number}; reset() begins another episode")
            raise
        if not math.isfinite(reward):
            raise InvalidRewardError(f"the reward of frame {outcome.number} is {reward}; a reward is a finite number")
        return reward

    def _info(self, outcome: Outcome, offsets: Offsets | None) -> dict[str, Any]:
        return {
            "frame_number": outcome.number,
            "frame_type": int(outcome.frame_type),
            "bitstream_size": outcome.size_bytes,
            "psnr": outcome.psnr,
            "qp": outcome.qp,
            "baseline_bitstream_size": outcome.baseline_size_bytes,
            "baseline_psnr": outcome.baseline_psnr,
            "offsets": outcome.offsets.copy(),
            "map_sent": offsets is not None,
        }

    # -- what remains of an episode ----------------------------------------------------------------------------------

    def get_byte_usage_diff(self, picture_number: int) -> tuple[int, int]:
        """Bytes that frame `picture_number` of this episode saved over the baseline's, and bytes it took."""
        if not 0 <= picture_number < len(self._packets):
            raise ConfigError(f"frame {picture_number} is not coded yet; this episode has {len(self._packets)} frames")
        size = len(self._packets[picture_number])
        return self._baseline_sizes[picture_number] - size, size

    def save_bitstream_to_file(self, path: str | Path, interrupt: bool = False) -> None:
        """Save the stream of the episode that just ended; with `interrupt`, the last one that was completed.

        A stream that is not complete is not saved; a warning says so.
        """
        under_way = 0 < len(self._packets) < self.clip.frame_count
        if under_way and not interrupt:
            warnings.warn(
                f"{path} was not written: the episode has {len(self._packets)} of {self.clip.frame_count} frames; "
                "finish it, or save the last complete one with interrupt=True",
                stacklevel=2,
            )
        elif not self._complete:
            warnings.warn(f"{path} was not written: no episode is complete yet; finish one first", stacklevel=2)
        else:
            self._save(Path(path), self._complete)

    def episode_record(self) -> dict[str, Any]:
        """The episode so far as a plain dict that `replay` codes again to the same bytes."""
        if not self._packets:
            raise ConfigError("there is no episode to record; reset() and step() first")
        frames = len(self._packets)
        totals = {
            "bytes": sum(map(len, self._packets)),
            "baseline_bytes": sum(self._baseline_sizes[:frames]),
            "psnr_y": self._psnr_sum / frames,
            "baseline_psnr_y": float(self.baseline.psnr[:frames, 0].mean()),
            "reward": self._reward_sum,
        }
        return episodes.record_of(
            self.clip,
            video=self._video,
            first_frame=0,
            settings=self.settings,
            seed=self._seed,
            sent=self._sent,
            packets=self._packets,
            totals=totals,
        )

    def replay(self, record: dict[str, Any]) -> bytes:
        """The packets of a recorded episode of this clip, joined, coded again by an encoder of its own."""
        return episodes.replay(record, self.clip)

    def _save(self, path: Path, packets: list[bytes]) -> None:
        if path.suffix != ".ivf":
            raise ConfigError(f"{path} does not end in .ivf; streams are saved as IVF")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bitstream(path, packets, self.clip.width, self.clip.height, self.clip.fps)


Av1GymEnv = SuperblockQpEnv
"""The environment under the name of an older one."""


def _opened(video: str | Path | Clip, max_frames: int | None) -> Clip:
    """The clip or its first frames, held in memory unless it is large."""
    clip = video if isinstance(video, Clip) else open_clip(video)
    if max_frames is not None:
        if type(max_frames) is not int or max_frames < 1:
            raise ConfigError(f"max_frames = {max_frames!r}; give a whole number from 1, or None for the whole clip")
        if max_frames < clip.frame_count:
            clip = clip.window(0, max_frames)
    small = frame_bytes(clip.width, clip.height) * clip.frame_count <= IN_MEMORY_BYTES
    return clip.load() if small else clip


def _checked_encoder(settings: EncoderSettings, target_kbps: float | None) -> EncoderSettings:
    """Settings under which the encoder obeys maps and answers each frame at once."""
    if settings.steers_rate:
        raise ConfigError(
            f"rate_control = {settings.rate_control}: the encoder would ignore every map; use cqp, and target_kbps= of "
            "the environment to hold a bitrate"
        )
    if settings.backend == "aom" and settings.rate_control != "cqp":
        raise ConfigError(f"rate_control = {settings.rate_control}: libaom takes maps in cqp only; use cqp")
    if not settings.low_delay:
        raise ConfigError("structure = random_access: a step needs its frame's packet at once; use low_delay")
    if target_kbps is not None:
        if not (math.isfinite(target_kbps) and target_kbps > 0):
            raise ConfigError(f"target_kbps = {target_kbps}; a bitrate is above zero")
        settings = replace(settings, picture_qp=True)
    return replace(settings, recon=True)


def _checked_lambda(value: float) -> float:
    if not (math.isfinite(value) and value >= 0):
        raise ConfigError(f"lambda_rd = {value}; it is finite and not negative")
    return float(value)


def _reward_of(reward: str | Reward) -> Reward:
    if isinstance(reward, str):
        if reward in REWARDS:
            return REWARDS[reward]
        if ":" in reward:
            found: Reward = names.resolve({}, reward)
            return found
        raise ConfigError(f"unknown reward {reward!r}{names.did_you_mean(reward, REWARDS)}")
    if not callable(reward):
        raise ConfigError(f"reward is a {type(reward).__name__}; give a name or a function of an Outcome")
    return reward


def _checked_levels(action: Any, superblocks: int) -> Offsets:
    """Offsets of an action of 0 to 6 per superblock."""
    values = _as_array(action)
    if values.shape != (superblocks,):
        raise ConfigError(f"the action has shape {values.shape}, this clip has {superblocks} superblocks: one each")
    if values.dtype.kind not in "iu":
        raise ConfigError(f"the action is {values.dtype}; give whole numbers from 0 to {LEVELS - 1}")
    if values.min() < 0 or values.max() >= LEVELS:
        raise ConfigError(f"the action goes from {values.min()} to {values.max()}; 0 to {LEVELS - 1} is allowed")
    offsets: Offsets = values.astype(np.int32) - MAX_OFFSET
    return offsets


def _checked_weights(action: Any) -> NDArray[np.float32]:
    values = _as_array(action)
    if values.shape != (len(MAP_FEATURES),):
        raise ConfigError(f"the action has shape {values.shape}; give {len(MAP_FEATURES)} weights")
    if values.dtype.kind not in "iuf":
        raise ConfigError(f"the action is {values.dtype}; give numbers from -1 to 1")
    if np.abs(values).max() > 1 + 1e-6:
        raise ConfigError(f"the action goes from {values.min()} to {values.max()}; -1 to 1 is allowed")
    return values.astype(np.float32)


def _as_array(action: Any) -> NDArray[Any]:
    try:
        values = np.asarray(action)
    except ValueError as error:  # ragged lists
        raise ConfigError(f"the action is no array: {error}") from None
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InvalidStateError(f"the action holds {values[~np.isfinite(values)].ravel()[0]}; actions are finite")
    return values
