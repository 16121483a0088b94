"""`TorchAbr`: a batch of players that never leaves its device.

All players of a batch are at the same chunk, so an episode of everyone begins and ends together: no masks, no branches.
`compiled=True` fuses a step into a few kernels with torch.compile.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from reelrl.errors import ConfigError
from reelrl.stream.data.ladders import nominal_ladder, read_ladder
from reelrl.stream.data.traces import read_traces
from reelrl.stream.simulator import rule as rules
from reelrl.stream.simulator.environment import RANDOM_SEED, check_deliverable
from reelrl.stream.simulator.observation import DEFAULT_QUALITY, S_INFO, state_columns
from reelrl.stream.simulator.packed import has_noise, pack_episode
from reelrl.stream.simulator.qoe import DEFAULT_REBUF_PENALTY, DEFAULT_SMOOTH_PENALTY, Qoe, as_qoe
from reelrl.stream.simulator.torch_rule import Batch, TorchLinks, torch_download, torch_links


class TorchAbr:
    """`num_envs` players over one video; `reset` and `step` take and return tensors on `device`.

    `step` returns observation (players, 6, columns) float32, reward float64, whether the video ended, and infos. When
    it ended the observation is the next video's first, and `infos["final_obs"]` is the last one's. `sleep_ms` is always
    the full sleep.
    """

    def __init__(
        self,
        traces: Any,
        ladder: Any = None,
        num_envs: int = 4096,
        *,
        device: str | torch.device = "cpu",
        default_quality: int = DEFAULT_QUALITY,
        rebuf_penalty: float = DEFAULT_REBUF_PENALTY,
        smooth_penalty: float = DEFAULT_SMOOTH_PENALTY,
        queue_delay_ms: float = 0.0,
        preset: str | None = None,
        noise: bool | None = None,
        random_start: bool | None = None,
        qoe: Qoe | str = "linear",
        state: str = "pensieve",
        random_seed: int = RANDOM_SEED,
        compiled: bool = False,
    ) -> None:
        self.device = torch.device(device)
        self.rule = rules.named_rule(preset, noise=noise, queue_delay_ms=queue_delay_ms)
        self.traces = read_traces(traces)
        resolved = nominal_ladder() if ladder is None else read_ladder(ladder)
        self.video = resolved.video(self.traces[0] if len(self.traces) == 1 else None)
        for trace in self.traces:
            check_deliverable(trace, self.video, self.rule)
        self.num_envs = num_envs
        self.columns = state_columns(self.video.rungs, state)
        self.random_start = (preset == "pensieve" and has_noise(self.rule)) if random_start is None else random_start
        self.links = torch_links(self.traces, self.rule, self.device)
        episode = pack_episode(
            self.video,
            as_qoe(qoe, rebuf_penalty, smooth_penalty),
            default_quality=default_quality,
            keep_junk=preset == "pensieve",
            random_start=self.random_start,
        )
        self.episode = episode
        self._sizes, self._next_mb, self._utilities = (
            torch.as_tensor(table, device=self.device)
            for table in (episode.sizes_bytes, episode.next_mb, episode.utilities)
        )
        self._rate_share = torch.as_tensor(episode.rate_share, device=self.device)
        shares = (self.video.chunks - np.arange(self.video.chunks + 1)) / self.video.chunks
        self._remain_share = torch.as_tensor(shares.astype(np.float32), device=self.device)
        self.generator = torch.Generator(self.device).manual_seed(random_seed)
        self._advance = torch.compile(self._advance_batch, dynamic=False) if compiled else self._advance_batch
        self.chunk = 0
        self.trace = torch.zeros(num_envs, dtype=torch.int64, device=self.device)
        self.clock_s = torch.zeros(num_envs, dtype=torch.float64, device=self.device)
        self.buffer_ms = torch.zeros_like(self.clock_s)
        self.rung = torch.full_like(self.trace, default_quality)
        self.obs = torch.zeros((num_envs, S_INFO, self.columns), dtype=torch.float32, device=self.device)

    def reset(self, *, traces: Tensor | None = None, noise: Tensor | None = None) -> Tensor:
        """Begin a video for everyone, on the given traces or on drawn ones."""
        if traces is None:
            count = len(self.traces)
            traces = torch.randint(count, (self.num_envs,), generator=self.generator, device=self.device)
        if traces.shape != (self.num_envs,):
            raise ConfigError(
                f"traces has shape {tuple(traces.shape)}; give one for each of the {self.num_envs} players"
            )
        self.trace = traces
        self.clock_s = torch.zeros_like(self.clock_s)
        if self.random_start:
            self.clock_s = self._random_clock()
        self.buffer_ms = torch.zeros_like(self.buffer_ms)
        self.rung = torch.full_like(self.rung, self.episode.default_quality)
        self.obs = torch.zeros_like(self.obs)
        self.chunk = 0
        self._download(self.rung, noise)
        return self.obs

    def _random_clock(self) -> Tensor:
        first, last = self.links.first[self.trace], self.links.last[self.trace]
        share = torch.rand(self.num_envs, generator=self.generator, device=self.device)
        slot = first + torch.minimum((share * (last - first)).long(), last - first - 1)
        return self.links.edges_s[slot]

    def step(self, actions: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor, bool, dict[str, Tensor]]:
        """Download everyone's next chunk. `noise` replaces the drawn factors, for replays and tests."""
        if self.chunk == 0:
            raise ConfigError("no video has begun; call reset() first")
        reward, batch = self._download(actions, noise)
        infos = {
            "buffer_s": batch.buffer_ms / 1000.0,
            "delay_ms": batch.delay_ms,
            "rebuffer_s": batch.stall_ms / 1000.0,
            "sleep_ms": batch.sleep_ms,
        }
        ended = self.chunk == self.video.chunks
        if ended:
            infos["final_obs"] = self.obs
            self.reset()
        return self.obs, reward, ended, infos

    def _download(self, actions: Tensor, noise: Tensor | None) -> tuple[Tensor, Batch]:
        if noise is None:
            noise = self._draw_noise()
        rows = (
            self._sizes[self.chunk],
            self._utilities[self.chunk],
            self._utilities[max(self.chunk - 1, 0)],
            self._next_mb[self.chunk + 1],
            self._remain_share[self.chunk + 1],
        )
        obs, reward, batch = self._advance(
            self.links, self.trace, self.clock_s, self.buffer_ms, self.obs, self.rung, actions, noise, *rows
        )
        self.obs, self.clock_s, self.buffer_ms, self.rung = obs, batch.clock_s, batch.buffer_ms, actions
        self.chunk += 1
        return reward, batch

    def _draw_noise(self) -> Tensor:
        low, high = self.rule.noise_low, self.rule.noise_high
        if low == high:
            return torch.full_like(self.clock_s, low)
        drawn = torch.rand(self.num_envs, generator=self.generator, device=self.device, dtype=torch.float64)
        return low + (high - low) * drawn

    def _advance_batch(
        self,
        links: TorchLinks,
        trace: Tensor,
        clock_s: Tensor,
        buffer_ms: Tensor,
        obs: Tensor,
        last_rung: Tensor,
        rung: Tensor,
        noise: Tensor,
        sizes: Tensor,
        utilities: Tensor,
        last_utilities: Tensor,
        next_mb: Tensor,
        remain_share: Tensor,
    ) -> tuple[Tensor, Tensor, Batch]:
        size = sizes[rung]
        batch = torch_download(links, trace, clock_s, buffer_ms, size, self.episode.chunk_ms, noise, self.rule)
        utility = utilities[rung]
        change = (utility - last_utilities[last_rung]).abs()
        reward = utility - self.episode.rebuf_penalty * (batch.stall_ms / 1000.0) - self.episode.smooth_penalty * change
        newest = torch.stack(
            [
                self._rate_share[rung],
                (batch.buffer_ms / 1000.0 / 10.0).float(),
                (size / batch.delay_ms / 1000.0).float(),
                (batch.delay_ms / 1000.0 / 10.0).float(),
                obs[:, 4, 0],
                remain_share.expand_as(rung),
            ],
            dim=1,
        )
        obs = torch.cat([obs[:, :, 1:], newest[:, :, None]], dim=2)
        rungs = next_mb.shape[0]
        tail = obs[:, 4, rungs:] if self.episode.keep_junk else torch.zeros_like(obs[:, 4, rungs:])
        row = torch.cat([next_mb.expand(obs.shape[0], rungs), tail], dim=1)
        return torch.cat([obs[:, :4], row[:, None], obs[:, 5:]], dim=1), reward, batch
