"""Agents over frames that ship with the package; docs/results/encode-policies.md says how they came about."""

from __future__ import annotations

from pathlib import Path

EVOLVED = Path(__file__).with_name("evolved.json")
SAC = Path(__file__).with_name("sac.safetensors")
