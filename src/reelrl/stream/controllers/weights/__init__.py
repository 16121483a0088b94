"""The trained controllers that come with the package."""

from __future__ import annotations

from pathlib import Path

SHIPPED = Path(__file__).parent / "ppo.safetensors"
SCALE_FREE = Path(__file__).parent / "scale-free.safetensors"
SCALE_FREE_PENSIEVE = Path(__file__).parent / "scale-free-pensieve.safetensors"
FUGU = Path(__file__).parent / "fugu.safetensors"  # `reel fit abr fugu`
COMYCO = Path(__file__).parent / "comyco.safetensors"  # `reel fit abr comyco`
