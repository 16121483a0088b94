"""Settings of the streaming autoencoder: the only place where its defaults are written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from reelrl.errors import ConfigError

FRAME_SIZE = 224
KERNELS = (3, 5, 7)

OptimiserName = Literal["obgd", "adaptive-obgd", "intentional", "adam", "adamw", "rmsprop", "sgd", "muon"]

# A rate that works for one optimiser is absurd for the next, so each has its own default.
RATES: dict[str, float] = {
    "obgd": 1.0,
    "adaptive-obgd": 1.0,
    "intentional": 0.5,
    "adam": 1e-3,
    "adamw": 1e-3,
    "rmsprop": 3e-4,
    "sgd": 0.02,
    "muon": 0.003,
}
# How slowly the size of each weight's gradient is forgotten. A stream that suddenly looks different wants it fast.
SIZE_MEMORIES = {"adaptive-obgd": 0.999, "intentional": 0.999, "adam": 0.99, "adamw": 0.99, "rmsprop": 0.99}


@dataclass(frozen=True, kw_only=True)
class OptimiserSettings:
    """Which optimiser, and its numbers; those it does not know are ignored by it."""

    name: OptimiserName = "adam"
    lr: float | None = None
    """None is the optimiser's own rate, `RATES`."""
    error: Literal["root", "loss", "one"] = "root"
    """What plays the temporal-difference error for ObGD: the root of the loss, the loss, or a constant 1."""
    gamma: float = 0.99
    lamda: float = 0.8
    kappa: float = 2.0
    beta1: float = 0.9
    beta2: float | None = None
    """None is the optimiser's own, `SIZE_MEMORIES`."""
    weight_decay: float = 0.0
    clip_norm: float = 1.0
    """Gradients longer than this are shortened to it; 0 leaves them as they are."""

    def __post_init__(self) -> None:
        if self.lr is not None and self.lr <= 0:
            raise ConfigError(f"lr is {self.lr}; a rate is above 0, or null for the optimiser's own")
        for name in ("gamma", "lamda", "beta1", "beta2"):
            value = getattr(self, name)
            if value is not None and (not 0 <= value <= 1 or (name.startswith("beta") and value == 1)):
                raise ConfigError(f"{name} is {value}; it is a share from 0 to 1")
        for name in ("kappa", "weight_decay", "clip_norm"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it may not be negative")

    @property
    def rate(self) -> float:
        """The learning rate in force."""
        return RATES[self.name] if self.lr is None else self.lr

    @property
    def size_memory(self) -> float:
        """The beta2 in force."""
        return SIZE_MEMORIES.get(self.name, 0.0) if self.beta2 is None else self.beta2


@dataclass(frozen=True, kw_only=True)
class LossSettings:
    """mse * MSE + l1 * L1 + ssim * (1 - SSIM), each pixel weighted by 1 + change * mask + foreground * in front."""

    mse: float = 1.0
    l1: float = 0.5
    ssim: float = 0.1
    change: float = 1.0
    """Extra weight of a pixel that changed since the last frame."""
    foreground: float = 4.0
    """Extra weight of a pixel that differs from the background."""
    small: float = 0.0
    """Weight of a 27x27 picture that one linear layer reads from the finest embedding: its MSE and L1 as above. So
    where things are stays in the code as plainly as in a small picture."""

    def __post_init__(self) -> None:
        for name in ("mse", "l1", "ssim", "change", "foreground", "small"):
            if getattr(self, name) < 0:
                raise ConfigError(f"loss weight {name} is {getattr(self, name)}; it may not be negative")
        if self.mse + self.l1 + self.ssim == 0:
            raise ConfigError("mse, l1 and ssim are all 0, so there is nothing to learn; give one of them a weight")


@dataclass(frozen=True, kw_only=True)
class AutoEncoderSettings:
    """The model, its loss and how it learns."""

    latent_channels: int = 3
    """Channels of the kernel-3 embedding; the other two have 2."""
    widths: tuple[tuple[int, int], tuple[int, int], tuple[int, int]] = ((16, 32), (16, 32), (8, 16))
    """Channels after the first and second convolution of the branches with kernels 3, 5 and 7."""
    layer_norm: bool = False
    residual: bool = False
    """A residual block before each embedding and after it."""
    transformer: bool = False
    """A transformer block over the coarsest features."""
    bounded: bool = False
    """Embeddings are squashed into (-1, 1), so that a large thing does not drown a small one."""
    averages: bool = False
    """Embeddings are local averages of the frame, and what the convolutions add to them."""
    sparsity: float = 0.5
    """Share of each unit's weights that start at zero."""
    paint: Literal["difference", "all"] = "difference"
    """What the branches paint: the difference from the background, or every pixel from nothing."""
    background_frames: int = 2000
    """How many frames the running mean remembers."""
    change_floor: float = 0.02
    """The change detector's threshold never falls below this difference."""
    loss: LossSettings = field(default_factory=LossSettings)
    optimiser: OptimiserSettings = field(default_factory=OptimiserSettings)
    precision: Literal["float32", "bfloat16"] = "float32"
    step: Literal["auto", "eager", "compiled", "graph", "compiled-graph"] = "auto"
    """Op by op, through torch.compile, or as one CUDA graph; "auto" is a graph on a GPU and op by op elsewhere."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.latent_channels < 1:
            raise ConfigError(f"latent_channels is {self.latent_channels}; at least 1 is needed")
        if any(width < 1 for pair in self.widths for width in pair):
            raise ConfigError(f"widths are {self.widths}; each is at least 1")
        if not 0 <= self.sparsity < 1:
            raise ConfigError(f"sparsity is {self.sparsity}; it is a share from 0 to below 1")
        if self.background_frames < 1:
            raise ConfigError(f"background_frames is {self.background_frames}; at least 1 is needed")

    @property
    def latents(self) -> tuple[int, int, int]:
        """Channels of the three embeddings."""
        return self.latent_channels, 2, 2
