"""How good the scale-free policy is on links it did not learn from: all sessions played at once, greedily, no noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from reelrl.seeding import stream
from reelrl.stream.scalefree.players import MixedPlayers, State
from reelrl.stream.scalefree.random_videos import random_videos, videos_on
from reelrl.stream.scalefree.sizes import CAUTION, HISTORY, MEMORY

if TYPE_CHECKING:
    from reelrl.stream.data.ladders import Video
    from reelrl.stream.data.traces import Trace
    from reelrl.stream.scalefree.network import ScaleFreePolicy

FAST = 4.0
"""A fast link: its mean is above the highest rung by this factor."""
OTHER_LADDERS = 40


class Sessions(NamedTuple):
    """Who plays what; one row per session."""

    trace: Tensor
    video: Tensor
    scale: Tensor
    cap_s: Tensor


class ScaleFreeValidator:
    """Pools on one video, each link as it is and once as a fast one, and the same links on ladders of all kinds.

    The score is the mean of the pools, or of those `selected`, each in units of the best rung's worth.
    """

    def __init__(
        self,
        pools: dict[str, list[Trace]],
        video: Video,
        worth: np.ndarray,
        device: torch.device,
        selected: tuple[str, ...] = (),
    ) -> None:
        self.pools = pools
        self.selected = selected or (*pools, "fast", "other_ladders")
        rng = stream(0, "abr", "validation ladders")
        others, other_worth = random_videos(rng, OTHER_LADDERS)
        links = [trace for traces in pools.values() for trace in traces]
        means = np.array([trace.kbps.mean() / 1000.0 for trace in links])
        videos = videos_on(device, [video, *others], [worth, *other_worth])
        self._players = MixedPlayers(links, videos, len(links), device, 0, noise=0.0)
        # Whoever plays on links that hold may know it; on those that break one has the caution that everybody has.
        told = [CAUTION if name == "outages" else 0.0 for name, traces in pools.items() for _ in traces]
        self._caution = torch.tensor(told, device=device)
        each = torch.arange(len(links), device=device)
        ones = torch.ones(len(links), dtype=torch.float64, device=device)
        rates = videos.top_mbps.double().cpu().numpy()
        chosen = rng.integers(1, 1 + len(others), len(links))
        target = rates[chosen] * np.exp(rng.uniform(np.log(0.1), np.log(2.0), len(links)))

        def scales(wanted: np.ndarray) -> Tensor:
            return torch.as_tensor(wanted / means, device=device)

        caps = torch.as_tensor(rng.choice([10.0, 20.0, 30.0, 60.0, 90.0], len(links)), device=device)
        self._sessions = {
            "as they are": Sessions(each, torch.zeros_like(each), ones, 60.0 * ones),
            "fast": Sessions(each, torch.zeros_like(each), scales(np.full(len(links), FAST * rates[0])), 60.0 * ones),
            "other ladders": Sessions(each, torch.as_tensor(chosen, device=device), scales(target), caps),
        }

    def score(self, policy: ScaleFreePolicy) -> dict[str, float]:
        """Worth per chunk (first chunk left out): mean and tenth percentile of each pool, and `score`."""
        scores: dict[str, float] = {}
        natural = self.play(policy, self._sessions["as they are"], self._caution)
        start = 0
        for name, traces in self.pools.items():
            part = natural[start : start + len(traces)]
            start += len(traces)
            scores |= {name: float(part.mean()), f"{name}_p10": float(np.percentile(part, 10))}
        for name in ("fast", "other ladders"):
            scores[name.replace(" ", "_")] = float(self.play(policy, self._sessions[name], 0.0).mean())
        return scores | {"score": float(np.mean([scores[name] for name in self.selected]))}

    @torch.no_grad()
    def play(self, policy: ScaleFreePolicy, sessions: Sessions, caution: Tensor | float) -> np.ndarray:
        """Worth per chunk of every session, the first chunk left out; what stalls cost does not depend on caution."""
        players = self._players
        state = begin(players, sessions, caution)
        total = torch.zeros(len(sessions.trace), device=players.device)
        last = players.videos.chunks[sessions.video]
        half, wary = torch.full_like(total, 0.5), torch.ones_like(total)
        for _ in range(int(last.max()) - 1):
            playing = state.chunk < last
            observations, _ = players.observe(state)
            after, rewards = players.play(state._replace(caution=wary), policy.logits(observations).argmax(1), half)
            total += torch.where(playing, rewards, 0.0)
            # Whoever is at the end stays there and earns nothing more.
            state = after._replace(chunk=torch.minimum(after.chunk, last), caution=state.caution)
        return (total / (last - 1)).double().cpu().numpy()


def begin(players: MixedPlayers, sessions: Sessions, caution: Tensor | float = 1.0) -> State:
    """Everyone at the start of their link, the first chunk downloaded: Pensieve's round trip and penalties."""
    count, device = len(sessions.trace), players.device
    zeros = torch.zeros(count, device=device)
    rows = torch.zeros(count, HISTORY, device=device)
    first = players.videos.first_rung[sessions.video]
    start = State(
        trace=sessions.trace,
        video=sessions.video,
        scale=sessions.scale,
        clock_s=torch.zeros(count, dtype=torch.float64, device=device),
        buffer_ms=torch.zeros(count, dtype=torch.float64, device=device),
        chunk=torch.zeros_like(sessions.video),
        last_utility=players.videos.utilities[sessions.video, first],
        cap_ms=torch.maximum(sessions.cap_s, 2.0 * players.videos.chunk_s[sessions.video].double()) * 1000.0,
        rtt_ms=torch.full((count,), 80.0, dtype=torch.float64, device=device),
        stall_penalty=zeros + 1.0,
        caution=zeros + caution,
        smooth_penalty=zeros + 1.0,
        rates=rows,
        delays=rows,
        seen=rows,
        memory=torch.zeros(count, MEMORY, device=device),
    )
    return players.play(start, first, zeros + 0.5)[0]
