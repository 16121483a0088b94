"""Settings of the streaming player: the only place where its defaults are written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from reelrl.errors import ConfigError
from reelrl.see.settings import AutoEncoderSettings

if TYPE_CHECKING:
    from reelrl.content.games.kinds import Shows

# A rate that works for one optimiser is absurd for the next, so each has its own default.
TRACE_RATES: dict[str, float] = {"obgd": 1.0, "adaptive-obgd": 1.0, "trace-adam": 3e-4, "intentional": 0.5}
POLICY_RATES: dict[str, float] = {**TRACE_RATES, "intentional": 0.05}


@dataclass(frozen=True, kw_only=True)
class TraceOptimiserSettings:
    """How an error and a trace become a step; numbers that the optimiser does not know are ignored by it."""

    name: Literal["obgd", "adaptive-obgd", "trace-adam", "intentional"] = "obgd"
    lr: float | None = None
    """None is the optimiser's own rate, `TRACE_RATES` or `POLICY_RATES`."""
    kappa: float = 2.0
    """How much shorter a step of ObGD is than one that might overshoot."""
    beta2: float = 0.999
    """How slowly the size of each weight's step is forgotten."""

    def __post_init__(self) -> None:
        if self.lr is not None and self.lr <= 0:
            raise ConfigError(f"lr is {self.lr}; a rate is above 0, or null for the optimiser's own")
        if self.kappa < 0:
            raise ConfigError(f"kappa is {self.kappa}; it may not be negative")
        if not 0 <= self.beta2 < 1:
            raise ConfigError(f"beta2 is {self.beta2}; it is a share from 0 to below 1")

    def rate(self, *, policy: bool = False) -> float:
        """The learning rate in force."""
        own = POLICY_RATES if policy else TRACE_RATES
        return own[self.name] if self.lr is None else self.lr


@dataclass(frozen=True, kw_only=True)
class PlayerNetSettings:
    """The player's own network: convolutions over what it sees, then layers over all of it."""

    pixel_layers: tuple[tuple[int, int, int], ...] = ((32, 8, 5), (64, 4, 3), (64, 3, 2))
    """Channels, kernel and stride of the convolutions over pixels."""
    embedding_layers: tuple[tuple[int, int, int], ...] = ((16, 3, 2), (32, 3, 2))
    """The same over each of the autoencoder's three embeddings."""
    hidden: tuple[int, ...] = (256,)
    layer_norm: bool = True
    """Each layer's output has zero mean and unit variance before it is bent."""
    sparsity: float = 0.9
    """Share of each unit's weights that start at zero."""

    def __post_init__(self) -> None:
        if any(number < 1 for layer in (*self.pixel_layers, *self.embedding_layers) for number in layer):
            raise ConfigError(
                f"layers are {self.pixel_layers} and {self.embedding_layers}; "
                "channels, kernels and strides are 1 or more"
            )
        if not self.hidden or any(width < 1 for width in self.hidden):
            raise ConfigError(f"hidden is {self.hidden}; give one width or more, each at least 1")
        if not 0 <= self.sparsity < 1:
            raise ConfigError(f"sparsity is {self.sparsity}; it is a share from 0 to below 1")


@dataclass(frozen=True, kw_only=True)
class PlayerSettings:
    """What the player sees, how it learns from it and how it chooses."""

    algorithm: Literal["q", "actor-critic"] = "q"
    """Q(lambda), or actor-critic(lambda)."""
    observation: Literal["pixels", "embedding", "both", "numbers"] = "pixels"
    """The last pictures in grey, the embedding of an autoencoder that learns beside, both, or the game's numbers."""
    gamma: float = 0.99
    lamda: float = 0.8
    value: TraceOptimiserSettings = field(default_factory=TraceOptimiserSettings)
    policy: TraceOptimiserSettings = field(default_factory=lambda: TraceOptimiserSettings(kappa=3.0))
    """The actor's optimiser; Q(lambda) has none."""
    entropy: float = 0.01
    """Weight of the actor's entropy."""
    epsilon: tuple[float, float] = (1.0, 0.01)
    """Share of random actions of Q(lambda) at first and at last."""
    epsilon_frames: int = 50_000
    """Frames over which that share falls."""
    cut_traces: bool = True
    """Q(lambda) forgets its trace at an action that is not the best one, as Watkins does; False goes on."""
    error_limit: float = 0.0
    """Errors beyond this are cut to it, as a Huber loss does; 0 leaves them as they are."""
    normalise: bool = True
    """What is seen has zero mean and unit variance over the stream, each element by itself."""
    scale_rewards: bool = True
    """Rewards are divided by the standard deviation of their discounted sum over the stream."""
    stack: int = 4
    """Pictures that the player sees at once."""
    size: int = 84
    """Height and width of these pictures."""
    embedding_stack: int = 2
    net: PlayerNetSettings = field(default_factory=PlayerNetSettings)
    autoencoder: AutoEncoderSettings = field(default_factory=AutoEncoderSettings)
    """Of the autoencoder that learns beside the player, where its embedding is seen."""
    step: Literal["auto", "eager"] = "auto"
    """How a step runs on a GPU: as one CUDA graph, or op by op."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("gamma", "lamda"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it is a share from 0 to 1")
        if not all(0 <= share <= 1 for share in self.epsilon):
            raise ConfigError(f"epsilon is {self.epsilon}; both are shares from 0 to 1")
        for name in ("entropy", "error_limit"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it may not be negative")
        for name in ("epsilon_frames", "stack", "size", "embedding_stack"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be 1 or more")

    @property
    def shows(self) -> Shows:
        """What the game has to show."""
        return "numbers" if self.observation == "numbers" else "pictures"

    @property
    def watches(self) -> bool:
        """Whether an autoencoder learns beside the player."""
        return self.observation in ("embedding", "both")

    def epsilon_at(self, frame: int) -> float:
        """The share of random actions after so many frames."""
        first, last = self.epsilon
        return first + (last - first) * min(frame / self.epsilon_frames, 1.0)


@dataclass(frozen=True, kw_only=True)
class AtariTraining:
    """What is played, for how long, and how often something is written."""

    ALIASES: ClassVar[dict[str, str]] = {"keep": "keep_checkpoints"}

    source: str = "ale:Breakout"
    frames: int = 200_000
    log_every: int = 1_000
    """Frames per line of metrics.jsonl; TensorBoard has every frame."""
    save_every: int = 50_000
    keep_checkpoints: int = 3
    """The newest so many stay; older ones are removed."""
    player: PlayerSettings = field(default_factory=PlayerSettings)

    def __post_init__(self) -> None:
        for name in ("frames", "log_every", "save_every", "keep_checkpoints"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be 1 or more")
