"""`reel export`: what was learned, for other programs."""
