"""What a learner sees and how well it does, on TensorBoard and live in a browser."""
