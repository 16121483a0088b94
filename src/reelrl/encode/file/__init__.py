"""Whole video files: what `reel encode` reads and writes."""
