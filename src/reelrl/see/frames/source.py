"""Frames on their way to the network: fetched while the learner is at the one before, uploaded, checked, scaled.

    with FrameSource("ale:Breakout", seed=0, device="cuda") as source:
        for frame in source:                    # uint8 [3, height, width] at the source's own size
            model.learn(frame.pixels, reset=frame.cut)
    source.position                             # where to go on

On CUDA a picture goes from the pipe straight into pinned memory. It is scaled to the network's size in the update.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from reelrl import seeding
from reelrl.content.feeds.kinds import START, Position
from reelrl.content.feeds.process import FeedProcess
from reelrl.errors import ConfigError
from reelrl.see.settings import FRAME_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

GAMES = ("Breakout", "Assault", "SpaceInvaders", "Pacman", "Asteroids")
SLOTS = 4  # pinned buffers: how far the host may run ahead of the device


class SourceFrame(NamedTuple):
    """A picture on the device; `cut` where it does not continue the one before."""

    pixels: Tensor
    cut: bool


def random_game(seed: int) -> str:
    """One of the five games, by the seed."""
    return f"ale:{GAMES[int(seeding.stream(seed, 'game').integers(len(GAMES)))]}"


class FrameSource:
    """The frames of a feed from `start` on; iteration ends where the feed does."""

    def __init__(self, name: str, seed: int, device: str | torch.device = "cpu", start: Position = START) -> None:
        self.name = name
        self.position = start
        """Where the next frame comes from."""
        self._feed = FeedProcess(name, seed, start)
        self._upload = Upload(device)

    @property
    def pid(self) -> int:
        """The process that makes the pictures."""
        return self._feed.pid

    def __iter__(self) -> Iterator[SourceFrame]:
        while (frame := self.read()) is not None:
            yield frame

    def read(self) -> SourceFrame | None:
        """The next frame, or None at the end."""
        shot = self._feed.read(lambda height, width: self._upload.place(height, width, 3))
        if shot is None:
            return None
        self.position = shot.position.next()
        return SourceFrame(self._upload.send().permute(2, 0, 1), shot.cut)

    def close(self) -> None:
        self._feed.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Upload:
    """Host buffers in turn, from where pictures go to the device.

        upload.place(210, 160, 3)[:] = picture      # a host array to be filled, pinned where there is a GPU
        pixels = upload.send()                      # the same on the device; work queued after this finds it there

    On CUDA the copy runs on a stream of its own, beside the update before it. On the CPU each buffer is new, and
    sending it copies nothing.
    """

    def __init__(self, device: str | torch.device) -> None:
        self._device = torch.device(device)
        self._slots: list[Tensor | None] = [None] * SLOTS
        self._turn = 0
        self._stream: torch.cuda.Stream | None = None
        if self._device.type == "cuda":
            self._stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
            self._copied = [torch.cuda.Event() for _ in range(SLOTS)]  # type: ignore[no-untyped-call]

    def place(self, *shape: int) -> NDArray[np.uint8]:
        """The next buffer, which `send` will send."""
        self._turn = (self._turn + 1) % SLOTS
        held = self._slots[self._turn]
        if self._stream:
            self._copied[self._turn].synchronize()  # long done, unless the device is SLOTS buffers behind
        if held is None or held.shape != shape or not self._stream:
            held = self._slots[self._turn] = torch.empty(shape, dtype=torch.uint8, pin_memory=bool(self._stream))
        array: NDArray[np.uint8] = held.numpy()
        return array

    def send(self) -> Tensor:
        """What was placed last, on its way to the device."""
        held = self._slots[self._turn]
        if held is None:
            raise RuntimeError("nothing was placed")
        if not self._stream:
            return held
        with torch.cuda.stream(self._stream):
            pixels = held.to(self._device, non_blocking=True)
        self._copied[self._turn].record(self._stream)
        learner = torch.cuda.current_stream(self._device)
        learner.wait_stream(self._stream)
        # The allocator must not hand this memory out again before the learner has read it.
        pixels.record_stream(learner)
        return pixels


def preprocess_frame(frame: Any, size: int = FRAME_SIZE, device: str | torch.device = "cpu") -> Tensor:
    """A picture [H, W, 3] (array) or [3, H, W] (tensor), uint8 or float in [0, 1], as float32 [1, 3, size, size]."""
    tensor = torch.from_numpy(np.ascontiguousarray(frame).copy()) if isinstance(frame, np.ndarray) else frame
    if not isinstance(tensor, Tensor):
        raise ConfigError(f"a frame is an array or a tensor, found {type(frame).__name__}")
    if isinstance(frame, np.ndarray) and tensor.dim() == 3 and tensor.shape[2] in {1, 3} and tensor.shape[0] != 3:
        tensor = tensor.permute(2, 0, 1)
    check_frame(tensor)
    return to_input(tensor.to(device), size)


def check_frame(frame: Tensor) -> None:
    """Refuse what cannot be a frame. The values of a float frame are looked at on the CPU only, where that is cheap."""
    if frame.dim() not in {3, 4} or frame.shape[-3] != 3 or (frame.dim() == 4 and frame.shape[0] != 1):
        raise ConfigError(f"a frame has shape {tuple(frame.shape)}; it is one RGB picture, [3, height, width]")
    if min(frame.shape[-2:]) < 1:
        raise ConfigError(f"a frame has shape {tuple(frame.shape)}, which holds no pixels")
    if frame.dtype is not torch.uint8 and not frame.is_floating_point():
        raise ConfigError(f"a frame has type {frame.dtype}; it is uint8, or float in [0, 1]")
    if frame.is_floating_point() and frame.device.type == "cpu":
        low, high = (float(value) for value in frame.aminmax())
        if not (low >= -1e-3 and high <= 1 + 1e-3):
            raise ConfigError(f"a float frame holds values from {low:g} to {high:g}; they are finite and in [0, 1]")


def to_input(frame: Tensor, size: int = FRAME_SIZE) -> Tensor:
    """A checked frame as float32 [1, 3, size, size], resized bilinearly."""
    batch = frame if frame.dim() == 4 else frame.unsqueeze(0)
    batch = batch.float() / 255 if batch.dtype is torch.uint8 else batch.float()
    if batch.shape[-2:] != (size, size):
        batch = functional.interpolate(batch, (size, size), mode="bilinear", align_corners=False)
    return batch


def postprocess_output(picture: Tensor) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A picture [3, H, W] or [1, 3, H, W] in [0, 1] as uint8 [H, W, 3]."""
    plain = picture.detach().squeeze(0) if picture.dim() == 4 else picture.detach()
    bytes_ = (plain.float().clamp(0, 1) * 255).round().to(torch.uint8)
    return bytes_.permute(1, 2, 0).cpu().numpy()
