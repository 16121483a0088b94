"""Policy gradients without the luck of the draw: in every state every rung is tried, on the same link.

PPO knows of a state what became of the one rung that was drawn. A simulator can do better: each rung is played, the
policy goes on greedily for some chunks, and the critic, who sees the link's future, says what the rest is worth. The
link being the same, what the rungs differ by is due to them; only which link it is remains chance. A state costs as
many decisions as rungs times chunks, and teaches more than that many states of PPO to a policy that is already good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from reelrl.agents.ppo import Ppo, compress, sample
from reelrl.stream.scalefree.players import MixedPlayers, State

if TYPE_CHECKING:
    from reelrl.agents.ppo import PpoSettings

CALM = 0.05
"""Differences between rungs are not divided by less, in units of the best rung's worth."""


class Branches(NamedTuple):
    """Steps x players of states, and what each rung gains there over the policy's usual choice."""

    observations: Tensor
    hints: Tensor
    gains: Tensor  # (steps, players, rungs)
    returns: Tensor  # of the rung that the policy likes best


class BranchingPolicyGradient(Ppo):
    """A learner like `Ppo` (its optimiser, critic and checkpoints) that tries every rung for `ahead` chunks."""

    def __init__(
        self, network: nn.Module, settings: PpoSettings, generator: torch.Generator, ahead: int, **how: Any
    ) -> None:
        super().__init__(network, settings, generator, **how)
        self.ahead = ahead
        # Two kernels, not one: together they are too large for Triton.
        compiled = bool(how.get("compiled"))
        self._play = torch.compile(_play, dynamic=False) if compiled else _play
        self._choose = torch.compile(self._best_rung, dynamic=False) if compiled else self._best_rung

    @torch.no_grad()
    def collect(  # type: ignore[override]
        self, players: MixedPlayers, observations: Tensor, hints: Tensor, steps: int
    ) -> tuple[Branches, Tensor, Tensor]:
        """Play `steps` with everyone, trying every rung in each; returns what was learned and where they stand."""
        found: list[tuple[Tensor, ...]] = []
        for _ in range(steps):
            logits, _ = self._think(observations, hints)
            returns = self._returns(players, logits.shape[1])
            gains = returns - (logits.softmax(-1) * returns).sum(-1, keepdim=True)
            found.append((observations, hints, gains, returns.gather(1, logits.argmax(1, keepdim=True))[:, 0]))
            actions, _ = sample(logits, self.generator)
            observations, hints, _, _ = players.step(actions)
        return Branches._make(torch.stack(column) for column in zip(*found, strict=True)), observations, hints

    def _returns(self, players: MixedPlayers, rungs: int) -> Tensor:
        """What each rung, and the policy after it, earns on the player's own link: (players, rungs)."""
        state = State(*(column.repeat_interleave(rungs, 0) for column in players.state))
        actions = torch.arange(rungs, device=players.device).repeat(players.count)
        playing = torch.ones_like(actions, dtype=torch.bool)
        total, discount = torch.zeros(len(actions), device=players.device), 1.0
        for _ in range(self.ahead):
            # All branches of a player are delayed alike.
            noise = torch.rand(players.count, generator=self.generator, device=players.device)
            state, earned, playing = self._play(players, state, actions, playing, noise.repeat_interleave(rungs))
            actions = self._choose(players, state)
            total += discount * earned
            discount *= self.settings.discount
        rest = self._think(*players.look(state))[1]
        return (total + discount * torch.where(playing, rest, 0.0)).reshape(players.count, rungs)

    def _best_rung(self, players: MixedPlayers, state: State) -> Tensor:
        with self._products:
            return self._policy.logits(players.seen(state)).argmax(1)

    def _columns(self, rollout: Branches) -> tuple[Tensor, ...]:
        return rollout

    def _loss_terms(  # type: ignore[override]
        self, observations: Tensor, hints: Tensor, gains: Tensor, returns: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        with self._products:
            log_spread = self._policy.log_spread(observations).float()
            logits = self._policy.logits(observations).float()
            values = self._policy.value(observations, hints).float()
        log_probs = torch.log_softmax(logits, dim=-1)
        shares = log_probs.exp()
        # Its minimum is the mean of what there is to gain or lose here, rare disasters included.
        usual = (shares.detach() * gains.abs()).sum(-1) + CALM
        spread_loss = (log_spread + usual * (-log_spread).exp()).mean()
        policy_loss = -((shares * gains).sum(-1) * (-log_spread.detach()).exp()).mean()
        entropy = -(shares * log_probs).sum(-1).mean()
        value_loss = nn.functional.smooth_l1_loss(values, compress(returns))
        return policy_loss, value_loss, spread_loss, entropy


def _play(
    players: MixedPlayers, state: State, actions: Tensor, playing: Tensor, noise: Tensor
) -> tuple[State, Tensor, Tensor]:
    """One chunk of every branch, and what it earned. A video that has ended stays at its last chunk."""
    state, rewards = players.play(state, actions, noise)
    last = players.videos.chunks[state.video] - 1
    earned, playing = torch.where(playing, rewards, 0.0), playing & (state.chunk <= last)
    return state._replace(chunk=torch.minimum(state.chunk, last)), earned, playing
