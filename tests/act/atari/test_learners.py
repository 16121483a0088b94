"""Q(lambda) and actor-critic(lambda), each equal to a plain twin that follows the formulas weight by weight."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

from reelrl.act.atari.actor_critic import ActorCriticLambda, drawn
from reelrl.act.atari.q_lambda import QLambda
from reelrl.act.atari.settings import PlayerNetSettings, PlayerSettings, TraceOptimiserSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZE, ACTIONS = 5, 3
SMALL = PlayerSettings(observation="numbers", net=PlayerNetSettings(hidden=(8, 6), sparsity=0.5), entropy=0.1)
OPTIMISERS = ("obgd", "adaptive-obgd", "trace-adam", "intentional")


@dataclass
class Step:
    """A moment as a learner gets it."""

    seen: Tensor
    reward: float
    terminated: bool
    began: bool
    chance: Tensor


def stream(seed: int, lengths: Sequence[int] = (9, 1, 14, 6)) -> list[Step]:
    """Episodes of these many actions; every other one ends by a limit and not by a goal."""
    chance = torch.Generator().manual_seed(seed)
    steps = []
    for number, length in enumerate(lengths):
        for place in range(length + 1):
            reward = float(torch.randn((), generator=chance)) * (place > 0)
            ends = place == length and number % 2 == 0
            seen, drawn_numbers = torch.randn(SIZE, generator=chance), torch.rand(2, generator=chance)
            steps.append(Step(seen, reward, ends, place == 0, drawn_numbers))
    return steps


@dataclass
class PlainTrace:
    """An optimiser with a trace, weight by weight."""

    net: nn.Module
    chosen: TraceOptimiserSettings
    decay: float
    policy: bool = False
    count: int = 0
    slope: float = 0.0
    error_square: float = 0.0
    error_size: float = 0.0
    traces: list[Tensor] = field(default_factory=list)
    squares: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.traces = [torch.zeros_like(weight) for weight in self.net.parameters()]
        self.squares = [torch.zeros_like(weight) for weight in self.net.parameters()]

    def forget(self) -> None:
        for trace in self.traces:
            trace.zero_()

    def intentional_step(self, delta: float, gradients: Sequence[Tensor]) -> None:
        """The step that would remove a share of the error, if the gradient were its running mean's size."""
        self.count += 1
        memory, known = 0.9998, 1 - 0.9998**self.count
        self.error_square = memory * self.error_square + (1 - memory) * delta**2
        most = 20 * (self.error_square / known) ** 0.5
        delta = max(-most, min(most, delta))
        self.error_size = memory * self.error_size + (1 - memory) * abs(delta)
        if self.policy:
            delta /= self.error_size / known
        slope, change = 0.0, 0.0
        sizes = []
        for trace, square, gradient in zip(self.traces, self.squares, gradients, strict=True):
            trace.copy_(self.decay * trace + gradient)
            square.copy_(self.chosen.beta2 * square + (1 - self.chosen.beta2) * gradient**2)
            sizes.append((square / (1 - self.chosen.beta2**self.count)).sqrt() + 1e-8)
            slope += (gradient**2 / sizes[-1]).sum().item()
            change += (trace**2 / sizes[-1]).sum().item()
        self.slope = self.decay * self.slope + (1 - self.decay) * slope
        rate = self.chosen.rate(policy=self.policy) / (self.slope / (1 - self.decay**self.count) * change) ** 0.5
        with torch.no_grad():
            for weight, trace, size in zip(self.net.parameters(), self.traces, sizes, strict=True):
                weight.add_(rate * delta * trace / size)

    def step(self, delta: float, gradients: Sequence[Tensor]) -> None:
        if self.chosen.name == "intentional":
            self.intentional_step(delta, gradients)
            return
        self.count += 1
        directions = []
        for trace, square, gradient in zip(self.traces, self.squares, gradients, strict=True):
            trace.copy_(self.decay * trace + gradient)
            square.copy_(self.chosen.beta2 * square + (1 - self.chosen.beta2) * (delta * trace) ** 2)
            size = (square / (1 - self.chosen.beta2**self.count)).sqrt() + 1e-8
            directions.append(trace.clone() if self.chosen.name == "obgd" else trace / size)
        rate = self.chosen.rate(policy=self.policy)
        if self.chosen.name != "trace-adam":
            total = sum(float(direction.abs().sum()) for direction in directions)
            rate /= max(rate * self.chosen.kappa * max(abs(delta), 1.0) * total, 1.0)
        with torch.no_grad():
            for weight, direction in zip(self.net.parameters(), directions, strict=True):
                weight.add_(rate * delta * direction)


def limit(delta: float, most: float) -> float:
    return max(-most, min(most, delta)) if most else delta


def gradients_of(value: Tensor, net: nn.Module) -> list[Tensor]:
    return list(torch.autograd.grad(value, list(net.parameters()), retain_graph=True))


class PlainQ:
    """Watkins's Q(lambda) as it is written: act, look, learn."""

    def __init__(self, learner: QLambda) -> None:
        self.settings, self.net = learner.settings, learner.net.row(0)
        self.trace = PlainTrace(self.net, self.settings.value, self.settings.gamma * self.settings.lamda)
        self.last: tuple[Tensor, int] | None = None

    def __call__(self, step: Step, epsilon: float) -> tuple[float, int]:
        delta = 0.0
        if not step.began:
            assert self.last is not None
            seen, action = self.last
            value = self.net({"numbers": seen.view(1, -1)})[0, action]
            best = self.net({"numbers": step.seen.view(1, -1)}).max().item()
            delta = step.reward + (0.0 if step.terminated else self.settings.gamma * best) - value.item()
            self.trace.step(limit(delta, self.settings.error_limit), gradients_of(value, self.net))
        values = self.net({"numbers": step.seen.view(1, -1)})[0]
        best_action = int(values.detach().argmax())
        action = int(step.chance[1] * ACTIONS) if step.chance[0] < epsilon else best_action
        if step.began or (self.settings.cut_traces and action != best_action):
            self.trace.forget()
        self.last = step.seen, action
        return delta, action


class PlainActorCritic:
    """Actor-critic(lambda) as it is written."""

    def __init__(self, learner: ActorCriticLambda) -> None:
        self.settings = learner.settings
        self.critic, self.actor = learner.critic.row(0), learner.actor.row(0)
        decay = self.settings.gamma * self.settings.lamda
        self.value_trace = PlainTrace(self.critic, self.settings.value, decay)
        self.policy_trace = PlainTrace(self.actor, self.settings.policy, decay, policy=True)
        self.last: tuple[Tensor, int] | None = None

    def __call__(self, step: Step, epsilon: float) -> tuple[float, int]:
        delta = 0.0
        if step.began:
            self.value_trace.forget()
            self.policy_trace.forget()
        else:
            assert self.last is not None
            seen, action = self.last
            value = self.critic({"numbers": seen.view(1, -1)})[0, 0]
            after = self.critic({"numbers": step.seen.view(1, -1)}).item()
            delta = step.reward + (0.0 if step.terminated else self.settings.gamma * after) - value.item()
            used = limit(delta, self.settings.error_limit)
            self.value_trace.step(used, gradients_of(value, self.critic))
            shares = self.actor({"numbers": seen.view(1, -1)})[0].softmax(0)
            entropy = -(shares * shares.log()).sum()
            sign = (used > 0) - (used < 0)
            self.policy_trace.step(
                used, gradients_of(shares[action].log() + self.settings.entropy * sign * entropy, self.actor)
            )
        shares = self.actor({"numbers": step.seen.view(1, -1)})[0].softmax(0).detach()
        action, rest = 0, float(step.chance[0])
        while action < ACTIONS - 1 and rest >= float(shares[action]):
            rest -= float(shares[action])
            action += 1
        self.last = step.seen, action
        return delta, action


def ours(learner: Any, step: Step, epsilon: float) -> tuple[float, int]:
    parts, first = {"numbers": step.seen.view(1, -1)}, torch.tensor([float(step.began)])
    goes_on = torch.tensor([float(not step.terminated)])
    delta = learner.learn(parts, torch.tensor([step.reward]), goes_on, first)
    learner.choose(parts, first, torch.tensor([epsilon]), step.chance.view(1, -1))
    return float(delta), int(learner.action)


def compare(learner: Any, twin: Any, nets: Sequence[str], seed: int) -> None:
    for step in stream(seed):
        (delta, action), (plain_delta, plain_action) = ours(learner, step, 0.3), twin(step, 0.3)
        assert action == plain_action
        assert delta == pytest.approx(plain_delta, abs=2e-4)
    for net in nets:
        for weight, plain in zip(
            getattr(learner, net).row(0).parameters(), getattr(twin, net).parameters(), strict=True
        ):
            torch.testing.assert_close(weight, plain, atol=1e-4, rtol=1e-3)


def with_optimiser(name: Any, **more: Any) -> PlayerSettings:
    value = TraceOptimiserSettings(name=name, beta2=0.9)
    return replace(SMALL, value=value, policy=replace(value, kappa=3.0), **more)


@pytest.mark.parametrize("name", OPTIMISERS)
@pytest.mark.parametrize("more", [{}, {"cut_traces": False}, {"error_limit": 0.5}, {"lamda": 0.0}], ids=str)
def test_q_lambda_is_its_plain_twin(name: str, more: dict[str, Any]) -> None:
    learner = QLambda(with_optimiser(name, **more), {"numbers": (SIZE,)}, ACTIONS)
    compare(learner, PlainQ(learner), ["net"], seed=3)


@pytest.mark.parametrize("name", OPTIMISERS)
@pytest.mark.parametrize("more", [{}, {"entropy": 0.0}, {"error_limit": 0.5}], ids=str)
def test_actor_critic_is_its_plain_twin(name: str, more: dict[str, Any]) -> None:
    learner = ActorCriticLambda(with_optimiser(name, algorithm="actor-critic", **more), {"numbers": (SIZE,)}, ACTIONS)
    compare(learner, PlainActorCritic(learner), ["critic", "actor"], seed=4)


@pytest.mark.parametrize("kind", [QLambda, ActorCriticLambda])
def test_the_first_moment_of_an_episode_changes_no_weight(kind: Any) -> None:
    learner = kind(SMALL, {"numbers": (SIZE,)}, ACTIONS)
    steps = stream(0, (3,))
    for step in steps:
        ours(learner, step, 0.0)
    names = [name for name in learner.state_dict() if name.endswith("weights")]
    before = {name: learner.state_dict()[name].clone() for name in names}
    assert ours(learner, replace(steps[0], reward=5.0), 0.0)[0] == 0
    assert before
    assert all(torch.equal(learner.state_dict()[name], before[name]) for name in names)


def test_actions_are_drawn_as_often_as_they_are_likely() -> None:
    logs = torch.tensor([[0.2, 0.5, 0.3]]).log()
    actions = [int(drawn(logs, torch.tensor([chance]))) for chance in torch.linspace(0, 0.999, 1000).tolist()]
    assert [actions.count(action) / 1000 for action in range(3)] == pytest.approx([0.2, 0.5, 0.3], abs=0.003)
    assert int(drawn(logs, torch.tensor([1.0]))) == 2
