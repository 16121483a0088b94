"""Frames as a source gives them, and as the network sees them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from reelrl.errors import ConfigError
from reelrl.see.settings import FRAME_SIZE


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
