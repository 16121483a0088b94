"""One bitrate controller for any ladder and any link: all it sees is relative to the ladder; each rung is scored."""
