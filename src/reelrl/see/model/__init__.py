"""The network, its loss, and what it remembers of its stream."""
