"""Learn how video is encoded, streamed, seen and acted upon."""

__version__ = "0.1.0"
