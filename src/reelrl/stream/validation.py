"""How good a policy is on links it did not learn from: all of them played at once, greedily, without noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from reelrl.stream.controllers.network import MEMORY, remember, with_memory
from reelrl.stream.simulator.torch_env import TorchAbr

if TYPE_CHECKING:
    from reelrl.stream.controllers.network import AbrPolicy
    from reelrl.stream.data.traces import Trace

WEIGHTS = {"recorded": 3.0, "mobile": 3.0, "outages": 2.0}


class Validator:
    """Plays every link of every pool. The score weighs the pools' means by WEIGHTS, about the mixture learned from."""

    def __init__(self, pools: dict[str, list[Trace]], ladder: Any, qoe: str = "linear") -> None:
        self.pools = pools
        self._links = [trace for traces in pools.values() for trace in traces]
        self._ladder = ladder
        self._qoe = qoe

    def score(self, policy: AbrPolicy) -> dict[str, float]:
        """QoE per chunk (first chunk left out): mean, median and tenth percentile of each pool, and `score`."""
        device = next(policy.parameters()).device
        returns = self._play(policy, device)
        scores: dict[str, float] = {}
        means, start = [], 0
        for name, traces in self.pools.items():
            part = returns[start : start + len(traces)]
            start += len(traces)
            means.append(float(part.mean()))
            scores |= {name: means[-1], f"{name}_median": float(np.median(part))}
            scores[f"{name}_p10"] = float(np.percentile(part, 10))
        return scores | {"score": float(np.average(means, weights=[WEIGHTS.get(name, 1.0) for name in self.pools]))}

    @torch.no_grad()
    def _play(self, policy: AbrPolicy, device: torch.device) -> Any:
        count = len(self._links)
        env = TorchAbr(self._links, self._ladder, count, device=device, preset="pensieve", noise=False, qoe=self._qoe)
        state = env.reset(traces=torch.arange(count, device=device))
        memory = torch.zeros(count, MEMORY, device=device)
        total = torch.zeros(count, dtype=torch.float64, device=device)
        for _ in range(env.video.chunks - 1):
            memory = remember(memory, state)
            state, rewards, _, _ = env.step(policy.logits(with_memory(state, memory)).argmax(dim=1))
            total += rewards
        return (total / (env.video.chunks - 1)).cpu().numpy()
