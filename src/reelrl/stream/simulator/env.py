"""`ABREnv`: choose the rung of the next chunk. Gymnasium id `reelrl/Abr-v0`."""

from __future__ import annotations

import logging
import math
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from reelrl.errors import ConfigError, InvalidRewardError
from reelrl.stream.data.ladders import Video, nominal_ladder, read_ladder
from reelrl.stream.data.pools import default_links
from reelrl.stream.simulator import rule as rules
from reelrl.stream.simulator.environment import RANDOM_SEED, Chunk, Environment
from reelrl.stream.simulator.observation import DEFAULT_QUALITY, S_INFO, push_column, state_columns
from reelrl.stream.simulator.packed import next_sizes_mb
from reelrl.stream.simulator.qoe import DEFAULT_REBUF_PENALTY, DEFAULT_SMOOTH_PENALTY, Qoe, as_qoe, chunk_reward

Observation = npt.NDArray[np.float32]
log = logging.getLogger(__name__)


class ABREnv(gymnasium.Env[Observation, np.int64]):
    """Adaptive bitrate streaming over recorded or generated networks.

    ## Observation
    float32 (6, 8), newest column last; see `simulator.observation`. More than 8 rungs need `state="wide"`.

    ## Action
    The rung of the next chunk, 0 is the lowest.

    ## Reward
    utility - rebuf_penalty * rebuffer_s - smooth_penalty * |utility - last utility|; the utility is Mbit/s unless `qoe`
    says otherwise, and a `rebuf_penalty` left as it is becomes that variant's own.

    ## Episode
    `reset` downloads the first chunk at `default_quality`, so the first observation holds one measurement; the last
    chunk terminates. `reset(options={"trace": 3, "start_slot": 0})` chooses instead of drawing.

    ## Arguments
    Traces and ladder may be paths, folders, parsed JSON or lists of these; without them, forty generated mobile links
    and Pensieve's rates. `preset="pensieve"` reproduces Pensieve's
    simulator, quirks included; its noise and random start are on unless `noise=False`. `buffer_s` is how far ahead the
    player downloads: a minute, or a few seconds for live.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - gymnasium declares it as a plain class attribute

    def __init__(
        self,
        trace_json_path: Any = None,
        video_path: Any = None,
        random_seed: int = RANDOM_SEED,
        default_quality: int = DEFAULT_QUALITY,
        rebuf_penalty: float = DEFAULT_REBUF_PENALTY,
        smooth_penalty: float = DEFAULT_SMOOTH_PENALTY,
        queue_delay_ms: float = 0.0,
        debug: bool = False,
        *,
        preset: str | None = None,
        noise: bool | None = None,
        random_start: bool | None = None,
        qoe: Qoe | str = "linear",
        state: str = "pensieve",
        buffer_s: float | None = None,
    ) -> None:
        rule = rules.named_rule(preset, noise=noise, queue_delay_ms=queue_delay_ms, buffer_s=buffer_s)
        ladder = nominal_ladder() if video_path is None else read_ladder(video_path)
        noisy = rule.noise_low != rule.noise_high
        start = (preset == "pensieve" and noisy) if random_start is None else random_start
        traces = default_links() if trace_json_path is None else trace_json_path
        self.net_env = Environment(traces, ladder, rule=rule, random_start=start, random_seed=random_seed)
        self.qoe = as_qoe(qoe, rebuf_penalty, smooth_penalty)
        self.a_dim = len(ladder.bitrates_kbps)
        self.default_quality = _checked_rung(default_quality, self.a_dim, "default_quality")
        self.debug = debug
        self._first_seed: int | None = random_seed
        self._keep_junk = preset == "pensieve"
        columns = state_columns(self.a_dim, state)
        self.action_space = spaces.Discrete(self.a_dim)
        # Throughput and delay have no natural limit; float32's own keeps the space bounded, as checkers demand.
        self.observation_space = spaces.Box(0.0, np.finfo(np.float32).max, (S_INFO, columns), np.float32)
        self.state: Observation = np.zeros((S_INFO, columns), dtype=np.float32)
        self.time_stamp = 0.0
        self.buffer_size = 0.0
        self.last_bit_rate = self.default_quality
        self._done = True
        self._video: Video | None = None
        self._begin_video()

    @property
    def video_size_by_bitrate(self) -> npt.NDArray[np.float64]:
        """Segment sizes in bytes, (rungs, chunks)."""
        return self.net_env.video.sizes_bytes.T

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start a video and download its first chunk."""
        if seed is None and self._first_seed is not None:
            seed = self._first_seed
        self._first_seed = None
        super().reset(seed=seed)
        self.net_env.rng = self.np_random
        options = options or {}
        unknown = sorted(set(options) - {"trace", "start_slot"})
        if unknown:
            raise ConfigError(f"reset options {unknown} are unknown; choose from trace, start_slot")
        self.net_env.reset_episode(options.get("trace"), options.get("start_slot"))
        self._begin_video()
        self.state = np.zeros_like(self.state)
        self.time_stamp = 0.0
        self.last_bit_rate = self.default_quality
        rung = self.default_quality
        chunk = self.net_env.get_video_chunk(rung)
        self._observe(chunk, rung)
        return self.state.copy(), self._info(chunk, rung, *self._utility_of(chunk, rung))

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Download the next chunk at rung `action`."""
        if self._done:
            raise gymnasium.error.ResetNeeded("the video has ended or not begun; call reset() first")
        rung = _checked_rung(action, self.a_dim, "action")
        chunk = self.net_env.get_video_chunk(rung)
        utility, last_utility = self._utility_of(chunk, rung)
        reward = chunk_reward(utility, last_utility, chunk.rebuffer_s, self.qoe.stall_penalty, self.qoe.smooth_penalty)
        if not math.isfinite(reward):
            raise InvalidRewardError(
                f"the reward is {reward} after a delay of {chunk.delay_ms} ms; check the trace and the ladder"
            )
        self._observe(chunk, rung)
        info = self._info(chunk, rung, utility, last_utility)
        if self.debug:
            log.info("chunk %d rung %d reward %.3f %s", self.net_env.chunk, rung, reward, info)
        return self.state.copy(), reward, chunk.end_of_video, False, info

    def _begin_video(self) -> None:
        """Numbers of the video; a ladder that leaves its length open makes another one of each trace."""
        video = self.net_env.video
        if self._video is video:
            return
        self._video = video
        self._utilities: list[list[float]] = self.qoe.utilities(video).tolist()
        self._rate_shares: list[float] = (video.bitrates_kbps / video.bitrates_kbps[-1]).tolist()
        self._kbps: list[float] = video.bitrates_kbps.tolist()
        self._next_mb = next_sizes_mb(video, self._keep_junk)

    def _utility_of(self, chunk: Chunk, rung: int) -> tuple[float, float]:
        """The worth of this chunk and of the one before it, each by its own segment's scores."""
        index = len(self._utilities) - chunk.chunks_remain - 1
        return self._utilities[index][rung], self._utilities[max(index - 1, 0)][self.last_bit_rate]

    def _observe(self, chunk: Chunk, rung: int) -> None:
        total = len(self._utilities)
        self.state = push_column(
            self.state,
            self._rate_shares[rung],
            chunk.buffer_s,
            chunk.size_bytes,
            chunk.delay_ms,
            self._next_mb[total - chunk.chunks_remain],
            chunk.chunks_remain / total,
            self._keep_junk,
        )
        self.last_bit_rate = rung
        self.buffer_size = chunk.buffer_s
        self.time_stamp += chunk.delay_ms + chunk.sleep_ms
        self._done = chunk.end_of_video

    def _info(self, chunk: Chunk, rung: int, utility: float, last_utility: float) -> dict[str, Any]:
        return {
            "bitrate_kbps": self._kbps[rung],
            "rebuffer_s": chunk.rebuffer_s,
            "buffer_s": chunk.buffer_s,
            "delay_ms": chunk.delay_ms,
            "sleep_ms": chunk.sleep_ms,
            "chunk_size_bytes": chunk.size_bytes,
            "chunks_remain": chunk.chunks_remain,
            "reward_quality": utility,
            "reward_rebuffer": -self.qoe.stall_penalty * chunk.rebuffer_s,
            "reward_smooth": -self.qoe.smooth_penalty * abs(utility - last_utility),
        }


def _checked_rung(rung: Any, rungs: int, name: str) -> int:
    try:
        index = int(rung)
        valid = index == rung and 0 <= index < rungs
    except (TypeError, ValueError, OverflowError):
        valid = False
    if not valid:
        raise ConfigError(f"{name} = {rung!r}; the ladder has {rungs} rungs, choose 0 to {rungs - 1}")
    return index
