"""One player's view as an embedding, learned without labels: pretraining, and what frozen embeddings know."""
