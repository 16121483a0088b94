"""The fitted predictor of live bits that comes with the package."""

from __future__ import annotations

from pathlib import Path

SHIPPED = Path(__file__).parent / "live.safetensors"
