"""Frames, pictures and packets into files."""
