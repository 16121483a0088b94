"""The trained teams that come with the package, by the scenario that they play."""

from __future__ import annotations

from pathlib import Path

SHIPPED = {path.stem: path for path in sorted(Path(__file__).parent.glob("*.safetensors"))}
