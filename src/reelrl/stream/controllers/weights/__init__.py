"""The trained controllers that come with the package."""

from __future__ import annotations

from pathlib import Path

SHIPPED = Path(__file__).parent / "ppo.safetensors"
SCALE_FREE = Path(__file__).parent / "scale-free.safetensors"
