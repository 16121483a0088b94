"""Video encoders: from a player's frames to an embedding."""
