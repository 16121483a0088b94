"""Proximal policy optimisation for discrete actions, on one page.

What differs from the textbook:
- the critic may see more than the actor (`hints`): whatever the simulator knows about the future. It takes the luck of
  the draw out of the advantages and is thrown away after training;
- values are learned as signed square roots: a disaster a hundred times larger than the everyday moves the critic, but
  does not drown the everyday;
- advantages are divided by their usual size in that observation, which the network learns too. A factor that depends on
  the observation alone leaves the best action what it was, and lets calm states teach as much as dangerous ones;
- whole batches stay on the device of the tensors given; nothing here asks which one that is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt


@dataclass(frozen=True, kw_only=True)
class PpoSettings:
    """The learner's constants. Rates and entropy fall linearly from start to end over the run."""

    learning_rate: float = 1e-3
    learning_rate_end: float = 5e-5
    entropy: float = 0.02
    entropy_end: float = 0.0005
    discount: float = 0.99
    trace_decay: float = 0.95  # GAE's lambda
    clip: float = 0.2
    epochs: int = 3
    minibatches: int = 8
    gradient_norm: float = 0.5

    def __post_init__(self) -> None:
        for name in ("discount", "trace_decay"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} = {getattr(self, name)}; it is a share, 0 to 1")
        if self.epochs < 1 or self.minibatches < 1:
            raise ConfigError(f"epochs = {self.epochs}, minibatches = {self.minibatches}; both are 1 or more")


class ActorCritic(Protocol):
    """What PPO needs of a network."""

    def logits(self, observations: Tensor) -> Tensor: ...
    def value(self, observations: Tensor, hints: Tensor) -> Tensor: ...
    def log_spread(self, observations: Tensor) -> Tensor: ...


class Players(Protocol):
    """A batch of episodes that restart by themselves. `step` returns observations, hints, rewards and who ended."""

    def reset(self) -> tuple[Tensor, Tensor]: ...
    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]: ...


class Rollout(NamedTuple):
    """Steps x players of experience; `last_value` is what the critic expects after the last step."""

    observations: Tensor
    hints: Tensor
    actions: Tensor
    log_probs: Tensor
    values: Tensor
    rewards: Tensor
    ended: Tensor
    last_value: Tensor


def compress(values: Tensor) -> Tensor:
    """Signed square root, straight near 0."""
    return values.sign() * ((values.abs() + 1.0).sqrt() - 1.0)


def expand(values: Tensor) -> Tensor:
    """The inverse of `compress`."""
    return values.sign() * ((values.abs() + 1.0).square() - 1.0)


def sample(logits: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Actions drawn by the Gumbel trick, and the logarithm of their probability."""
    log_probs = torch.log_softmax(logits, dim=-1)
    uniform = torch.rand(logits.shape, generator=generator, device=logits.device).clamp_min(1e-20)
    actions = (log_probs - (-uniform.log()).log()).argmax(dim=-1)
    return actions, log_probs.gather(-1, actions[..., None])[..., 0]


def advantages(rollout: Rollout, settings: PpoSettings) -> Tensor:
    """Generalised advantage estimates, (steps, players), in the units of the rewards."""
    result = torch.empty_like(rollout.rewards)
    values, following = rollout.values, rollout.last_value
    carried = torch.zeros_like(following)
    for t in range(len(rollout.rewards) - 1, -1, -1):
        alive = 1.0 - rollout.ended[t].to(values.dtype)
        error = rollout.rewards[t] + settings.discount * following * alive - values[t]
        carried = error + settings.discount * settings.trace_decay * alive * carried
        result[t] = carried
        following = values[t]
    return result


class Ppo:
    """The learner: collects with `collect`, improves with `update`."""

    def __init__(
        self,
        network: nn.Module,
        settings: PpoSettings,
        generator: torch.Generator,
        compiled: bool = False,
        half: bool = False,
    ) -> None:
        self.network = network
        self.settings = settings
        self.generator = generator
        on_gpu = generator.device.type == "cuda"
        self.optimizer = torch.optim.Adam(network.parameters(), lr=settings.learning_rate, eps=1e-5, fused=on_gpu)
        # Products in bfloat16: half the traffic, and what decides (logarithms, sums, weights) stays in float32.
        self._products = torch.autocast(generator.device.type, dtype=torch.bfloat16, enabled=half)
        self._policy: ActorCritic = network  # type: ignore[assignment]
        self._think = torch.compile(self._consider, dynamic=False) if compiled else self._consider
        self._losses = torch.compile(self._loss_terms, dynamic=False) if compiled else self._loss_terms

    @torch.no_grad()
    def collect(
        self, players: Players, observations: Tensor, hints: Tensor, steps: int
    ) -> tuple[Rollout, Tensor, Tensor]:
        """Play `steps` with everyone; returns the experience and where the players stand."""
        transitions: list[tuple[Tensor, ...]] = []
        for _ in range(steps):
            logits, values = self._think(observations, hints)
            actions, log_probs = sample(logits, self.generator)
            next_observations, next_hints, rewards, ended = players.step(actions)
            transitions.append((observations, hints, actions, log_probs, values, rewards, ended))
            observations, hints = next_observations, next_hints
        columns = [torch.stack(column) for column in zip(*transitions, strict=True)]
        return Rollout._make([*columns, self._think(observations, hints)[1]]), observations, hints

    def _consider(self, observations: Tensor, hints: Tensor) -> tuple[Tensor, Tensor]:
        with self._products:
            logits, values = self._policy.logits(observations), self._policy.value(observations, hints)
        return logits.float(), expand(values.float())

    def update(self, rollout: Rollout, progress: float) -> dict[str, float]:
        """Improve on one batch of experience. `progress` runs from 0 to 1 over the training."""
        settings = self.settings
        for group in self.optimizer.param_groups:
            group["lr"] = _fall(settings.learning_rate, settings.learning_rate_end, progress)
        batch = tuple(column.flatten(0, 1) for column in self._columns(rollout))
        entropy_weight = _fall(settings.entropy, settings.entropy_end, progress)
        device = batch[0].device
        losses = torch.zeros(4, device=device)
        for _ in range(settings.epochs):
            order = torch.randperm(len(batch[0]), generator=self.generator, device=device)
            for chosen in order.chunk(settings.minibatches):
                losses += self._improve(*(column[chosen] for column in batch), entropy_weight=entropy_weight)
        means = (losses / (settings.epochs * settings.minibatches)).tolist()
        return dict(zip(("policy_loss", "value_loss", "spread_loss", "entropy"), means, strict=True))

    def _columns(self, rollout: Rollout) -> tuple[Tensor, ...]:
        """What the loss needs of each step."""
        gains = advantages(rollout, self.settings)
        seen = (rollout.observations, rollout.hints, rollout.actions, rollout.log_probs)
        return (*seen, gains, gains + rollout.values)

    def _improve(self, *batch: Tensor, entropy_weight: float) -> Tensor:
        """One gradient step; returns the four terms of the loss."""
        policy_loss, value_loss, spread_loss, entropy = terms = self._losses(*batch)
        self.optimizer.zero_grad(set_to_none=True)
        (policy_loss + value_loss + spread_loss - entropy_weight * entropy).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), self.settings.gradient_norm)
        self.optimizer.step()
        return torch.stack(terms).detach()

    def _loss_terms(
        self,
        observations: Tensor,
        hints: Tensor,
        actions: Tensor,
        old_log_probs: Tensor,
        gains: Tensor,
        returns: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        with self._products:
            log_spread = self._policy.log_spread(observations).float()
            logits = self._policy.logits(observations).float()
            values = self._policy.value(observations, hints).float()
        spread_loss = nn.functional.smooth_l1_loss(log_spread, (gains.abs() + 1e-2).log())
        gains = gains * (-log_spread.detach()).exp()
        gains = (gains - gains.mean()) / (gains.std() + 1e-8)
        log_probs = torch.log_softmax(logits, dim=-1)
        ratio = (log_probs.gather(-1, actions[:, None])[:, 0] - old_log_probs).exp()
        clipped = ratio.clamp(1 - self.settings.clip, 1 + self.settings.clip)
        policy_loss = -torch.minimum(ratio * gains, clipped * gains).mean()
        entropy = -(log_probs.exp() * log_probs).sum(-1).mean()
        value_loss = nn.functional.smooth_l1_loss(values, compress(returns))
        return policy_loss, value_loss, spread_loss, entropy

    def forget(self, parameters: Iterable[nn.Parameter]) -> None:
        """Drop Adam's moments of these."""
        for parameter in parameters:
            self.optimizer.state.pop(parameter, None)

    def export(self) -> dict[str, Tensor]:
        """Everything that `restore` needs to continue exactly: weights, Adam's moments, the generator."""
        saved = {f"network.{name}": tensor for name, tensor in self.network.state_dict().items()}
        for index, moments in self.optimizer.state_dict()["state"].items():
            saved |= {f"adam.{index}.{name}": torch.as_tensor(value) for name, value in moments.items()}
        return saved | {"generator": self.generator.get_state()}

    def restore(self, saved: dict[str, Tensor]) -> None:
        """Continue from `export`."""
        network = {name.removeprefix("network."): t for name, t in saved.items() if name.startswith("network.")}
        self.network.load_state_dict(network)
        moments: dict[int, dict[str, Tensor]] = {}
        for name, tensor in saved.items():
            if name.startswith("adam."):
                _, index, key = name.split(".")
                moments.setdefault(int(index), {})[key] = tensor
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})
        self.generator.set_state(saved["generator"].cpu())


@torch.no_grad()
def follow(average: nn.Module, network: nn.Module, share: float) -> None:
    """Move every weight of `average` by `share` of the way towards `network`."""
    torch._foreach_lerp_(list(average.parameters()), list(network.parameters()), share)


def generator_on(device: torch.device, seed: int) -> torch.Generator:
    """A generator that lives where the tensors do."""
    return torch.Generator(device).manual_seed(seed)


def to_arrays(parts: dict[str, dict[str, Tensor]]) -> dict[str, npt.NDArray[Any]]:
    """Tensors by prefix and name, as a checkpoint takes them."""
    return {
        prefix + name: tensor.detach().cpu().numpy().copy()
        for prefix, part in parts.items()
        for name, tensor in part.items()
    }


def tensors_on(device: torch.device, arrays: dict[str, npt.NDArray[Any]]) -> dict[str, Tensor]:
    """The tensors of a checkpoint, on the device."""
    return {name: torch.from_numpy(array.copy()).to(device) for name, array in arrays.items()}


def _fall(start: float, end: float, progress: float) -> float:
    return start + (end - start) * min(max(progress, 0.0), 1.0)
