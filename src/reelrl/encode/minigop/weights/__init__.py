"""The agent over mini-GOPs that ships with the package; docs/results/encode-policies.md says how it came about."""

from __future__ import annotations

from pathlib import Path

SAC = Path(__file__).with_name("sac.safetensors")
