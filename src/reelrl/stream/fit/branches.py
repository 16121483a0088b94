"""Settle what a scale-free policy is undecided about: play the second rung too, and see at the end which was better.

Near a tie PPO learns little: its advantages come from one noisy session each. Here a session branches wherever the
policy gives its second rung a fair chance: a twin takes that rung once, and both are played greedily to the end of the
same link. The difference between the two is what the choice is worth, to the viewer and with the policy as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from reelrl.errors import ConfigError
from reelrl.stream.scalefree.players import MixedPlayers, State
from reelrl.stream.scalefree.random_videos import videos_on
from reelrl.stream.scalefree.validation import Sessions, begin
from reelrl.stream.simulator.qoe import Qoe

if TYPE_CHECKING:
    from collections.abc import Callable

    from reelrl.stream.data.ladders import Video
    from reelrl.stream.data.traces import Trace
    from reelrl.stream.scalefree.network import ScaleFreePolicy

UNDECIDED = 0.05
"""The share of the second rung, of the first two, from which both are tried."""
BUFFER_S = 60.0
BATCH = 8192


class Branches(NamedTuple):
    """What was seen where sessions branched, both rungs, and how much more the other was worth by the end."""

    observations: Tensor
    chosen: Tensor
    other: Tensor
    gain: Tensor


def settle(
    policy: ScaleFreePolicy,
    links: list[Trace],
    video: Video,
    *,
    rounds: int,
    players: int,
    epochs: int,
    rate: float,
    seed: int,
    moved: Callable[[int], None],
) -> int:
    """Improve the policy in place; returns how many branches it learned from. `moved` hears of each round's.

    Everyone plays this video as in Pensieve's simulator, without noise, and trusts the link.
    """
    if video.chunks < 2:
        raise ConfigError(f"the video has {video.chunks} chunk; give 2 or more, as nobody chooses the first")
    device = next(policy.parameters()).device
    worth = Qoe().utilities(video)[0]
    simulator = MixedPlayers(links, videos_on(device, [video], [worth / worth.max()]), 1, device, seed, noise=0.0)
    generator = torch.Generator(device).manual_seed(seed)
    optimiser = torch.optim.Adam(policy.actor.parameters(), rate)
    total = 0
    for number in range(rounds):
        trace = torch.randint(len(links), (players,), generator=generator, device=device)
        found = branches(policy, simulator, _sessions(trace))
        for group in optimiser.param_groups:
            group["lr"] = rate * (1.0 - number / rounds)
        for _ in range(epochs):
            _learn(policy, optimiser, found, generator)
        total += len(found.gain)
        moved(len(found.gain))
    return total


@torch.no_grad()
def branches(policy: ScaleFreePolicy, simulator: MixedPlayers, sessions: Sessions) -> Branches:
    """Play these sessions of one video greedily, with a twin for every rung that was nearly taken."""
    state = begin(simulator, sessions, caution=0.0)
    count = len(sessions.trace)
    earned = torch.zeros(count, device=simulator.device)
    seen, both, parents = [], [], []
    for _ in range(int(simulator.videos.chunks[0]) - 1):
        observations, _ = simulator.observe(state)
        scores = policy.logits(observations)
        best, rungs = scores[:count].topk(2, dim=1)
        torn = (torch.sigmoid(best[:, 1] - best[:, 0]) > UNDECIDED).nonzero()[:, 0]
        seen.append(observations[torn])
        both.append(rungs[torn])
        parents.append(torn)
        actions = torch.cat([scores.argmax(1), rungs[torn, 1]])
        state = State(*(torch.cat([column, column[torn]]) for column in state))
        state, rewards = simulator.play(state, actions, torch.full_like(actions, 0.5, dtype=torch.float32))
        earned = torch.cat([earned, earned[torn]]) + rewards
    gain = earned[count:] - earned[torch.cat(parents)]
    chosen, other = torch.cat(both).unbind(1)
    return Branches(torch.cat(seen), chosen, other, gain)


def _learn(
    policy: ScaleFreePolicy, optimiser: torch.optim.Optimizer, found: Branches, generator: torch.Generator
) -> None:
    """Raise what the choices are worth, each taken with the share that the policy gives the other rung."""
    order = torch.randperm(len(found.gain), generator=generator, device=found.gain.device)
    for part in torch.split(order, BATCH):
        scores = policy.logits(found.observations[part])
        other, chosen = (scores.gather(1, rung[part, None])[:, 0] for rung in (found.other, found.chosen))
        worth = (torch.sigmoid(other - chosen) * found.gain[part]).mean()
        optimiser.zero_grad()
        (-worth).backward()  # type: ignore[no-untyped-call]
        optimiser.step()


def _sessions(trace: Tensor) -> Sessions:
    as_they_are = torch.ones(len(trace), dtype=torch.float64, device=trace.device)
    return Sessions(trace, torch.zeros_like(trace), as_they_are, BUFFER_S * as_they_are)
