"""How good a trained autoencoder is: scores, bytes, what its embedding knows, and baselines."""
