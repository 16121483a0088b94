"""Where questions come from: a clip, its probes, and the pass that asks."""
