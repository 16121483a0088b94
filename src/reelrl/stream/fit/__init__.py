"""Nets of the learned baselines, fitted by supervised learning on links of the training pool."""
