"""The network: encoder, decoder, loss, and what it keeps of its stream."""
