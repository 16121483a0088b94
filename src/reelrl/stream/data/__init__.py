"""Network traces and bitrate ladders: read, written, generated, measured."""
