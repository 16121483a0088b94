"""A trained bitrate policy for players: one ES module without dependencies, and ONNX."""
