"""`reel fit ...` and `reel search ...`"""
