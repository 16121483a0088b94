"""The trained model of quality targets that comes with the package."""

from __future__ import annotations

from pathlib import Path

SHIPPED = Path(__file__).parent / "target.safetensors"
