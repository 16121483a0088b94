"""The trained controller that comes with the package."""

from __future__ import annotations

from pathlib import Path

SHIPPED = Path(__file__).parent / "ppo.safetensors"
