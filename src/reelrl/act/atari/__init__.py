"""A player that learns what it sees and what to do from one stream: one frame, one update, next frame."""
