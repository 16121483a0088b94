"""The two fast environments as PPO sees them: observations, hints, rewards, ends, all torch tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from reelrl.stream.controllers.network import HINT_EDGES_S, MEMORY, remember, with_memory
from reelrl.stream.simulator.torch_env import TorchAbr
from reelrl.stream.simulator.torch_rule import TorchLinks, find_slot, torch_links

if TYPE_CHECKING:
    from reelrl.stream.data.traces import Trace


def future_rates(links: TorchLinks, trace: Tensor, clock_s: Tensor) -> Tensor:
    """Log of the mean rate in each window to come: what only a simulator can know."""
    return (0.5 * torch.log(future_mbps(links, trace, clock_s).clamp_min(0.0) + 1e-2)).float()


def future_mbps(links: TorchLinks, trace: Tensor, clock_s: Tensor) -> Tensor:
    """The mean rate (Mbit/s) in each window of HINT_EDGES_S after now."""
    first, last = links.first[trace][:, None], links.last[trace][:, None]
    duration, total = links.duration_s[trace][:, None], links.total_bytes[trace][:, None]
    ahead = torch.tensor(HINT_EDGES_S, dtype=torch.float64, device=clock_s.device)
    times = clock_s[:, None] + ahead
    passes = torch.floor(times / duration)
    within = times - passes * duration
    slot = find_slot(links.edges_s, first.expand_as(within), last.expand_as(within), within, links.steps)
    passed = links.passed_bytes[slot] + links.bytes_per_s[slot] * (within - links.edges_s[slot]) + passes * total
    mbps: Tensor = passed.diff(dim=1) / ahead.diff() * 8e-6
    return mbps


class TorchPlayers:
    """`TorchAbr` for PPO: everything stays on its device."""

    def __init__(self, env: TorchAbr, compiled: bool = False) -> None:
        self.env = env
        self._rates = torch.compile(future_rates, dynamic=False) if compiled else future_rates
        self._remember = torch.compile(remember, dynamic=False) if compiled else remember
        self._memory = torch.zeros(env.num_envs, MEMORY, device=env.device)
        self.rungs = env.video.rungs
        self._ended = {flag: torch.full((env.num_envs,), flag, device=env.device) for flag in (False, True)}

    def reset(self) -> tuple[Tensor, Tensor]:
        """Begin everyone's first video."""
        return self._seen(self.env.reset()), self._hints()

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """One chunk for everyone."""
        observations, rewards, ended, _ = self.env.step(actions)
        return self._seen(observations), self._hints(), rewards.float(), self._ended[ended]

    def _seen(self, state: Tensor) -> Tensor:
        self._memory = self._remember(self._memory, state)
        return with_memory(state, self._memory)

    def _hints(self) -> Tensor:
        return self._rates(self.env.links, self.env.trace, self.env.clock_s)

    def export(self) -> dict[str, Tensor]:
        """Everything that `restore` needs to continue exactly."""
        env = self.env
        return {
            "trace": env.trace,
            "clock_s": env.clock_s,
            "buffer_ms": env.buffer_ms,
            "rung": env.rung,
            "obs": env.obs,
            "chunk": torch.tensor(env.chunk),
            "generator": env.generator.get_state(),
            "memory": self._memory,
        }

    def restore(self, saved: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Continue from `export`."""
        env = self.env
        for name in ("trace", "clock_s", "buffer_ms", "rung", "obs"):
            setattr(env, name, saved[name].to(env.device))
        env.chunk = int(saved["chunk"])
        env.generator.set_state(saved["generator"].cpu())
        self._memory = saved["memory"].to(env.device)
        return with_memory(env.obs, self._memory), self._hints()


def batch_players(
    links: list[Trace], ladder: Any, count: int, device: torch.device, seed: int, *, qoe: str = "linear"
) -> TorchPlayers | VectorPlayers:
    """Players to learn from, in Pensieve's noisy simulator: compiled on a CPU, in torch on anything else."""
    if device.type != "cpu":
        env = TorchAbr(links, ladder, count, device=device, preset="pensieve", qoe=qoe, random_seed=seed, compiled=True)
        return TorchPlayers(env, compiled=True)
    from reelrl.stream.simulator.vector_env import AbrVectorEnv

    return VectorPlayers(AbrVectorEnv(links, ladder, count, preset="pensieve", qoe=qoe, infos=False), seed)


class VectorPlayers:
    """`AbrVectorEnv` for PPO on the CPU."""

    def __init__(self, env: Any, seed: int) -> None:
        self.env = env
        self.rungs = env.video.rungs
        self.seed = seed
        self._links = torch_links(env.traces, env.rule._replace(wrap_to_zero=False), torch.device("cpu"))
        self._start_s = torch.tensor([float(t.edges_s[0]) for t in env.traces], dtype=torch.float64)
        self._observations = np.zeros(0, dtype=np.float32)
        self._memory = torch.zeros(env.num_envs, MEMORY)

    def reset(self) -> tuple[Tensor, Tensor]:
        """Begin everyone's first video."""
        self._observations, _ = self.env.reset(seed=self.seed)
        return self._seen(), self._hints()

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """One chunk for everyone."""
        self._observations, rewards, ended, _, _ = self.env.step(actions.numpy())
        return self._seen(), self._hints(), torch.from_numpy(rewards).float(), torch.from_numpy(ended)

    def _hints(self) -> Tensor:
        players = self.env.export()
        trace = torch.from_numpy(np.ascontiguousarray(players["trace"]))
        clock_s = torch.from_numpy(np.ascontiguousarray(players["clock_s"])) - self._start_s[trace]
        return future_rates(self._links, trace, clock_s)

    def export(self) -> dict[str, Tensor]:
        """Everything that `restore` needs to continue exactly."""
        players = self.env.export()
        return {
            "players": torch.from_numpy(players.view(np.uint8).copy()),
            "obs": torch.from_numpy(self._observations.copy()),
            "memory": self._memory,
        }

    def restore(self, saved: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Continue from `export`."""
        from reelrl.stream.simulator.kernels import PLAYER

        self._observations = saved["obs"].numpy().copy()
        self.env.restore(saved["players"].numpy().copy().view(PLAYER), self._observations)
        self._memory = saved["memory"].clone()
        return with_memory(torch.from_numpy(self._observations), self._memory), self._hints()

    def _seen(self) -> Tensor:
        state = torch.from_numpy(self._observations)
        self._memory = remember(self._memory, state)
        return with_memory(state, self._memory)
