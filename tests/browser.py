"""The headless Chromium that looks at our pages: the one that `reel play --headless` drives."""

from reelrl.stream.play.chromium import PROGRAM, Chromium

__all__ = ["PROGRAM", "Chromium"]
