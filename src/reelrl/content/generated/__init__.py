"""Clips that the package draws itself, the same to the byte on every machine."""
