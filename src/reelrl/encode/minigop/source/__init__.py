"""The encoder in this process as a source of mini-GOPs: sample encodes, probe, plan, then one pass."""
