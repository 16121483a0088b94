"""A video cut into parts that are coded side by side, each on its own, and joined."""
