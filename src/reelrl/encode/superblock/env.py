"""`SuperblockQpEnv`: place QP offsets on the superblocks of each frame. Gymnasium id `reelrl/SuperblockQP-v0`."""

from __future__ import annotations

import math
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import EzPickle
from numpy.typing import NDArray

from reelrl import names
from reelrl.content.write.video import write_bitstream
from reelrl.encode.codecs.rate_loop import FrameQp
from reelrl.encode.codecs.session import EncoderSession
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.superblock import record as episodes
from reelrl.encode.superblock.maps import (
    LEVELS,
    MAP_FEATURES,
    ZERO_MAP,
    checked_levels,
    checked_weights,
    map_inputs,
    map_of,
)
from reelrl.encode.superblock.over_time import LARGEST_SHIFT, SHIFT_STEP, TIME, shifted
from reelrl.encode.superblock.prepared_clip import PreparedClip
from reelrl.encode.superblock.rewards import PAY_FOR_BYTES, Outcome, reward_of, weighted_gain
from reelrl.encode.superblock.states import (
    LARGEST,
    ClipView,
    Normalisation,
    checked_observation,
)
from reelrl.errors import ConfigError, InvalidRewardError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reelrl.content.clip import Clip
    from reelrl.content.frame import Frame
    from reelrl.encode.superblock.rewards import Reward
    from reelrl.encode.superblock.states import StateFactory
    from reelrl.encode.superblock.weighting import Weighing

Observation = NDArray[np.float32]
Offsets = NDArray[np.int32]

ACTIONS = ("map", "features", "map+time", "features+time")
DEFAULT_CLIP = "generated:street?size=192x128&frames=8"
DEFAULT_WEIGHTS = "centre"


class SuperblockQpEnv(gymnasium.Env[Observation, Any], EzPickle):
    """Where inside each frame an AV1 encoder spends its bits.

    ## Observation
    A float32 vector built by `state` from the frame about to be coded, normalised by what the state gave in the
    baseline pass and cut at ten deviations; `normalise=False` leaves it as it is. After the last frame it is zero.

    ## Action
    action="map": MultiDiscrete([7] * superblocks), value v adds v - 3 to the QP of its superblock. All 3s, or None,
    send no map at all; `ZERO_MAP` sends zeros. action="features": Box(-1, 1), weights of `MAP_FEATURES` for a map.
    With "+time" behind either, one entry more moves the whole frame by up to 12 QP: value v by 4 (v - 3), a weight by
    12 times itself. It adds to the rule that codes the baseline too (key frame 12 QP finer, frames after cuts 8), so
    that rewards pay for what is better than that rule.

    ## Reward
    By name, or a function of an `Outcome`: "psnr_gain" luma dB above the baseline's, "rd" dB and bytes together by
    `lambda_rd`, "ssim", "weighted" dB under `weights` (moving, centre, detail, an array, or a function), "equal_rate"
    dB less what the bytes are worth. With "+time" only the last, or a function of yours: others pay for bytes alone.

    ## Episode
    One step is one frame, in display order; the last frame of the clip, or of its first `max_frames`, terminates.
    `outcome` is what became of the frame last coded, reconstruction included.

    ## Arguments
    Without a clip a short generated street is coded. `target_kbps` holds a bitrate by moving the frames' QP (the
    encoder's own rate control would ignore maps). With `output_dir` the baseline's stream is saved there as
    baseline_output.ivf. `prepared` is that of another environment with the same arguments: clip and baseline are then
    shared, not made again.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - gymnasium declares it as a plain class attribute

    def __init__(
        self,
        video_path: str | Path | Clip = DEFAULT_CLIP,
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
        prepared: PreparedClip | None = None,
    ) -> None:
        EzPickle.__init__(
            self, video_path, output_dir, lambda_rd=lambda_rd, state=state, reward=reward, encoder=encoder,
            max_frames=max_frames, action=action, target_kbps=target_kbps, weights=weights, normalise=normalise,
            prepared=prepared,
        )  # fmt: skip
        self._session: EncoderSession | None = None
        self._reward = reward_of(reward)
        make_state: StateFactory = names.resolve(names.STATES, state, foreign=True) if isinstance(state, str) else state
        if action not in ACTIONS:
            raise ConfigError(f"unknown action {action!r}{names.did_you_mean(action, ACTIONS)}")
        if self._reward is weighted_gain and weights is None:
            weights = DEFAULT_WEIGHTS
        self._over_time = action.endswith(TIME)
        if self._over_time and isinstance(reward, str) and reward in PAY_FOR_BYTES:
            raise ConfigError(
                f"reward {reward!r} with action {action!r}: every frame coded finer would be paid for; use equal_rate, "
                "or a function of your own"
            )
        self.prepared = prepared or PreparedClip(
            video_path,
            encoder,
            max_frames=max_frames,
            target_kbps=target_kbps,
            weights=weights,
            lambda_rd=lambda_rd,
            over_time=self._over_time,
        )
        self.clip = self.prepared.clip
        self.grid = self.clip.grid
        self.superblocks = self.clip.superblock_count
        self.settings = self.prepared.settings
        self.target_kbps = self.prepared.target_kbps
        self.lambda_rd = self.prepared.lambda_rd
        self.features = self.prepared.features
        self.baseline = self.prepared.baseline
        self.weights = self.prepared.weights
        self._prepare_action(action)
        self._prepare_state(make_state, normalise)
        if output_dir is not None:
            self._save(Path(output_dir) / "baseline_output.ivf", self.baseline.packets)
        self._frames: Iterator[Frame] = iter(())
        self._frame: Frame | None = None
        self._number = 0
        self._qp: int | None = None
        self._seed: int | None = None
        self._packets: list[bytes] = []
        self._complete: list[bytes] = []
        self._sent: list[tuple[int | None, Offsets | None]] = []
        self._reward_sum = self._psnr_sum = 0.0
        self.outcome: Outcome | None = None

    @property
    def _is_map(self) -> bool:
        return self.action.removesuffix(TIME) == "map"

    def _prepare_action(self, action: str) -> None:
        self.action = action
        self._no_offsets = np.zeros(self.superblocks, np.int32)
        self.action_space: spaces.Space[Any]
        if self._is_map:
            self.action_space = spaces.MultiDiscrete([LEVELS] * (self.superblocks + self._over_time))
        else:
            self.action_space = spaces.Box(-1, 1, (len(MAP_FEATURES) + self._over_time,), np.float32)
            self._inputs = map_inputs(self.features, self.grid, self.weights)

    def _prepare_state(self, make_state: StateFactory, normalise: bool | Normalisation) -> None:
        self.state = make_state(ClipView(self.clip), self.prepared.baseline_observations())
        self._length = self.state.get_observation_length()
        self.normalisation: Normalisation | None = None
        if normalise is False:
            # Values are finite, so float32's own limits bound them; checkers dislike infinite spaces.
            limit, space = np.finfo(np.float32).max, self.state.get_observation_space()
            low, high = np.clip(space.low, -limit, limit), np.clip(space.high, -limit, limit)
        else:
            if not isinstance(normalise, Normalisation):
                normalise = Normalisation.learn(self.prepared.baseline_states(self.state), self.state.get_groups())
            self.normalise_by(normalise)
            high = np.full(self._length, LARGEST, np.float32)
            low = -high
        self.observation_space = spaces.Box(low, high, dtype=np.float32)
        self._end = np.clip(np.zeros(self._length, np.float32), low, high)

    def normalise_by(self, normalisation: Normalisation) -> None:
        """Scale observations by this from now on, as when several clips share one; not in mid-episode."""
        self.normalisation = normalisation
        self._ezpickle_kwargs["normalise"] = normalisation  # a copy made by pickle has it too
        self._mean, self._scale = normalisation.spread(self.state.get_groups())

    def twin(self) -> SuperblockQpEnv:
        """Another environment of the same clip, for episodes beside this one's: nothing is coded or learned again."""
        arguments: dict[str, Any] = {**self._ezpickle_kwargs}
        arguments |= {"prepared": self.prepared, "normalise": self.normalisation or False}
        return type(self)(self.clip, **arguments)

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
        self._session = EncoderSession(self.settings, statistics=self.prepared.statistics)
        self._qps = FrameQp(self.settings, self.target_kbps, self.prepared.shifts)
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
        offsets, shift = self._decision_of(action)
        frame, number = self._frame, self._number
        if self._qp is not None:
            self._qp = shifted(self._qp, shift)
        # Whatever fails from here on ends the episode: the frame is in the stream, or half in it.
        self._frame = None
        self._session.send(frame, qp=self._qp, offsets=offsets)
        (packet,) = self._session.receive()
        self._qps.update(packet)
        self._packets.append(packet.data)
        self._sent.append((self._qp, offsets))
        outcome = self.prepared.outcome(frame, packet, self._no_offsets if offsets is None else offsets)
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
        return self._end.copy() if ended else self._observe(), reward, ended, False, self._info(outcome, offsets)

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
        described = self.prepared.described(number, self.settings.qp if self._qp is None else self._qp)
        try:
            given = self.state.get_observation(frame, described, self.prepared.frame_types[number], number)
            return self._normalised(checked_observation(given, self._length, number))
        except BaseException:
            self._frame = None
            raise

    def _normalised(self, values: Observation) -> Observation:
        if self.normalisation is None:
            return values.copy()
        scaled = (values - self._mean) * self._scale
        return np.clip(scaled, -LARGEST, LARGEST, out=scaled)

    # -- one frame ---------------------------------------------------------------------------------------------------

    def _decision_of(self, action: Any) -> tuple[Offsets | None, int]:
        """Offsets to send, None for no map; and QP steps by which the whole frame moves."""
        if action is None or action is ZERO_MAP:
            return (None if action is None else self._no_offsets), 0
        shift, timed = 0, self._over_time
        if self._is_map:
            offsets = checked_levels(action, self.superblocks, timed)
            if timed:
                offsets, shift = offsets[:-1], SHIFT_STEP * int(offsets[-1])
        else:
            weights = checked_weights(action, len(MAP_FEATURES) + timed)
            if timed:
                weights, shift = weights[:-1], round(float(weights[-1]) * LARGEST_SHIFT)
            offsets = map_of(self._inputs[self._number], weights)
        return (offsets if offsets.any() else None), shift

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
        return self.prepared.sizes[picture_number] - size, size

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
            "baseline_bytes": sum(self.prepared.sizes[:frames]),
            "psnr_y": self._psnr_sum / frames,
            "baseline_psnr_y": float(self.baseline.psnr[:frames, 0].mean()),
            "reward": self._reward_sum,
        }
        return episodes.record_of(
            self.clip,
            video=self.prepared.name,
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
