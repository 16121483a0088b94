"""`reel demo`: both encoders on one clip, and a map that favours what moves."""
