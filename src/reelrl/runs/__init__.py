"""Run folders: settings, checkpoints, logs, progress, Ctrl+C: what all training has in common."""
