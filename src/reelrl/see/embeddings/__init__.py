"""Embeddings in as few bytes as they are worth."""
