"""Players who differ in everything: ladder, link, buffer, round trip and what stalls and switches cost them.

A million of them play at once on a GPU, each at its own chunk of its own video; whoever comes to the end begins another
one. The rule is that of every other execution (`torch_rule.torch_download`). Links have a shape and a scale: which
rates a link has relative to the ladder is drawn anew for every video.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from reelrl.stream.rollout_envs import future_mbps
from reelrl.stream.scalefree.features import LONG_STALL_S, History, Offer, Player, features, measured
from reelrl.stream.scalefree.network import packed
from reelrl.stream.scalefree.sizes import AHEAD, HISTORY, MEMORY
from reelrl.stream.simulator.rule import PENSIEVE
from reelrl.stream.simulator.torch_rule import Batch, TorchLinks, torch_download, torch_links

if TYPE_CHECKING:
    from reelrl.stream.data.traces import Trace
    from reelrl.stream.scalefree.random_videos import Videos

DRAWS = 14
"""Numbers between 0 and 1 that a new video takes."""
VERY_FAST = 20.0
CAUTIOUS = (1.5, 17.0)


class Audience(NamedTuple):
    """Who plays. Shares are of the videos; whoever has not the usual value draws one."""

    slowest: float  # the mean rate of a link lies between these, relative to the lowest and the highest rung...
    fastest: float
    very_fast_share: float  # ... or above the highest by up to VERY_FAST
    usual_buffer: float  # 60 s
    usual_round_trip: float  # 80 ms
    usual_stall: float  # a second of stall costs what the best rung is worth
    usual_smooth: float  # a switch costs what it changes
    trusting: float  # plays on links that hold, and knows it
    wary: float  # on links that may break; all others also dread long stalls, by a factor of CAUTIOUS
    pensieve_ladder: float
    linear_worth: float


EVERYONE = Audience(0.8, 4.0, 0.15, 0.4, 0.6, 0.5, 0.6, 0.3, 0.3, 0.35, 0.7)
PENSIEVES = Audience(0.7, 1.6, 0.02, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0)
"""Pensieve's ladder, buffer, round trip and QoE, which the field reports on, and links about as fast as the ladder."""
AUDIENCES = {"everyone": EVERYONE, "pensieve": PENSIEVES}


class State(NamedTuple):
    """Where every player stands; all tensors have one row per player."""

    trace: Tensor
    video: Tensor
    scale: Tensor  # the link's rates are multiplied by it
    clock_s: Tensor
    buffer_ms: Tensor
    chunk: Tensor  # the next
    last_utility: Tensor
    cap_ms: Tensor
    rtt_ms: Tensor
    stall_penalty: Tensor
    caution: Tensor
    smooth_penalty: Tensor
    rates: Tensor
    delays: Tensor
    seen: Tensor
    memory: Tensor

    @property
    def history(self) -> History:
        """What the policy's features read."""
        return History(self.rates, self.delays, self.seen, self.memory, (self.buffer_ms / 1000.0).float())


class MixedPlayers:
    """`count` players on these links and videos, as PPO sees them.

    `breaking` are as many links again, for those who were not told that theirs holds.
    """

    def __init__(
        self,
        links: list[Trace],
        videos: Videos,
        count: int,
        device: torch.device | str,
        seed: int,
        *,
        noise: float = 0.1,
        compiled: bool = False,
        audience: Audience = EVERYONE,
        breaking: list[Trace] | None = None,
    ) -> None:
        self.device = torch.device(device)
        self.audience = audience
        self.count, self.noise = count, noise
        self._holding, self._first_breaking = len(links), len(links) if breaking else 0
        # Time stands still during a round trip, as in Pensieve's simulator, which the field reports on.
        self.links: TorchLinks = torch_links(
            [*links, *(breaking or [])], PENSIEVE._replace(wrap_to_zero=False), self.device
        )
        self.videos = videos
        self.generator = torch.Generator(self.device).manual_seed(seed)
        self._forward = torch.compile(self._advance, dynamic=False) if compiled else self._advance
        self._look = torch.compile(self.observe, dynamic=False) if compiled else self.observe
        self.state: State = self._begin(self._uniform(DRAWS), self._uniform(1)[:, 0])

    def reset(self) -> tuple[Tensor, Tensor]:
        """Begin everyone's first video."""
        self.state = self._begin(self._uniform(DRAWS), self._uniform(1)[:, 0])
        return self._look(self.state)

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """One chunk for everyone: observations, hints, rewards, and whose video ended (and the next began)."""
        self.state, rewards, ended = self._forward(self.state, actions, self._uniform(DRAWS), self._uniform(2))
        observations, hints = self._look(self.state)
        return observations, hints, rewards, ended

    def export(self) -> dict[str, Tensor]:
        """Everything that `restore` needs to continue exactly."""
        return {**self.state._asdict(), "generator": self.generator.get_state()}

    def restore(self, saved: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Continue from `export`."""
        self.state = State(**{name: saved[name].to(self.device) for name in State._fields})
        self.generator.set_state(saved["generator"].cpu())
        return self._look(self.state)

    def _uniform(self, columns: int) -> Tensor:
        return torch.rand(self.count, columns, generator=self.generator, device=self.device)

    def _advance(self, state: State, actions: Tensor, draws: Tensor, noise: Tensor) -> tuple[State, Tensor, Tensor]:
        state, reward = self.play(state, actions, noise[:, 0])
        ended = state.chunk >= self.videos.chunks[state.video]
        fresh = self._begin(draws, noise[:, 1])

        def chosen(new: Tensor, old: Tensor) -> Tensor:
            return torch.where(ended.reshape(-1, *[1] * (old.ndim - 1)), new, old)

        return State(*(chosen(new, old) for new, old in zip(fresh, state, strict=True))), reward, ended

    def play(self, state: State, actions: Tensor, noise: Tensor) -> tuple[State, Tensor]:
        """Download the next chunk at these rungs."""
        videos = self.videos
        size_mbit = videos.sizes_mbit[state.video, state.chunk, actions]
        batch = self._download(state, size_mbit, noise)
        utility = videos.utilities[state.video, actions]
        stall_s = (batch.stall_ms / 1000.0).float()
        dread = (state.caution - 1.0).clamp_min(0.0)
        reward = (
            utility
            - state.stall_penalty * (stall_s + dread * (stall_s - LONG_STALL_S).clamp_min(0.0))
            - state.smooth_penalty * (utility - state.last_utility).abs()
        )
        delay_s = (batch.delay_ms / 1000.0).float()
        history = measured(state.history, size_mbit / delay_s, delay_s, (batch.buffer_ms / 1000.0).float())
        state = state._replace(
            clock_s=batch.clock_s,
            buffer_ms=batch.buffer_ms,
            chunk=state.chunk + 1,
            last_utility=utility,
            rates=history.rates,
            delays=history.delays,
            seen=history.seen,
            memory=history.memory,
        )
        return state, reward

    def _download(self, state: State, size_mbit: Tensor, noise: Tensor) -> Batch:
        rule = PENSIEVE._replace(rtt_ms=state.rtt_ms, buffer_cap_ms=state.cap_ms)  # type: ignore[arg-type]
        factor = 1.0 + self.noise * (2.0 * noise.double() - 1.0)
        size_bytes = size_mbit.double() * 125_000.0 / state.scale
        chunk_ms = self.videos.chunk_s[state.video].double() * 1000.0
        where = (self.links, state.trace, state.clock_s, state.buffer_ms)
        return torch_download(*where, size_bytes, chunk_ms, factor, rule)

    def _begin(self, draws: Tensor, noise: Tensor) -> State:
        """A new video for everyone, its first chunk downloaded at the second rung (or the lowest of two)."""
        links, videos, audience = self.links, self.videos, self.audience
        video = (draws[:, 0] * len(videos.chunks)).long()
        trusting = draws[:, 12] < audience.trusting
        wary = draws[:, 12] < audience.trusting + audience.wary
        low, high = CAUTIOUS[0] - 1.0, CAUTIOUS[1] - 1.0
        caution = torch.where(wary, 1.0, 1.0 + low * (high / low) ** draws[:, 13])
        caution = torch.where(trusting, 0.0, caution)
        trace = torch.where(trusting, 0, self._first_breaking) + (draws[:, 1] * self._holding).long()
        lowest, top, first = videos.rates_mbps[video, 0], videos.top_mbps[video], videos.first_rung[video]
        slow, fast = torch.log(audience.slowest * lowest), torch.log(audience.fastest * top)
        within = torch.exp(slow + draws[:, 2] * (fast - slow))
        mean = torch.where(draws[:, 3] < audience.very_fast_share, top * VERY_FAST ** draws[:, 2], within)
        passed = links.total_bytes[trace] / links.duration_s[trace] * 8e-6
        chunk_s = videos.chunk_s[video]
        cap_s = torch.where(draws[:, 4] < audience.usual_buffer, 60.0, 8.0 * 15.0 ** draws[:, 5])
        rtt_ms = torch.where(draws[:, 6] < audience.usual_round_trip, 80.0, 5.0 * 60.0 ** draws[:, 7])
        stall = torch.where(draws[:, 8] < audience.usual_stall, 1.0, 0.1 * 40.0 ** draws[:, 9])
        smooth = torch.where(draws[:, 10] < audience.usual_smooth, 1.0, 3.0 * draws[:, 11])
        nothing = torch.zeros_like(mean)
        rows = torch.zeros(len(mean), HISTORY, device=mean.device)
        start = State(
            trace=trace,
            video=video,
            scale=mean.double() / passed,
            clock_s=links.duration_s[trace] * noise.double(),
            buffer_ms=torch.zeros_like(passed),
            chunk=torch.zeros_like(video),
            last_utility=videos.utilities[video, first],
            cap_ms=torch.maximum(cap_s, 2.0 * chunk_s).double() * 1000.0,
            rtt_ms=rtt_ms.double(),
            stall_penalty=stall,
            caution=caution,
            smooth_penalty=smooth,
            rates=rows,
            delays=rows,
            seen=rows,
            memory=torch.zeros(len(mean), MEMORY, device=mean.device),
        )
        return self.play(start, first, nothing + 0.5)[0]

    def observe(self, state: State) -> tuple[Tensor, Tensor]:
        """What the policy sees, and what the critic sees beside it."""
        player, offer = self._player(state), self._offer(state)
        context, rungs = features(player, offer, state.history)
        return packed(context, rungs, player.present), future(self.links, state, player, offer.utilities)

    def _player(self, state: State) -> Player:
        videos = self.videos
        return Player(
            videos.chunk_s[state.video],
            (state.cap_ms / 1000.0).float(),
            state.stall_penalty,
            state.caution,
            state.smooth_penalty,
            videos.top_mbps[state.video],
            videos.rates_mbps[state.video],
            videos.present[state.video],
        )

    def _offer(self, state: State) -> Offer:
        videos = self.videos
        ahead = state.chunk[:, None] + torch.arange(1, AHEAD + 1, device=self.device)
        return Offer(
            videos.sizes_mbit[state.video, state.chunk],
            videos.utilities[state.video],
            videos.relative[state.video[:, None], ahead],
            state.last_utility,
            (videos.chunks[state.video] - state.chunk).float(),
        )


def future(links: TorchLinks, state: State, player: Player, utilities: Tensor) -> Tensor:
    """What the critic alone sees: the link's mean rate in windows to come, and the worth of what it could carry."""
    mbps = (future_mbps(links, state.trace, state.clock_s) * state.scale[:, None]).float()
    carried = (player.rates_mbps[:, None, :] <= mbps[:, :, None]) & player.present[:, None, :]
    worth = torch.where(carried, utilities[:, None, :], 0.0).amax(2)
    return torch.cat([0.5 * torch.log((mbps / player.top_mbps[:, None]).clamp(1e-3, 1e3)), worth], dim=1)
