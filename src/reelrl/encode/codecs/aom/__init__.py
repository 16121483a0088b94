"""libaom as it comes with OpenCV's wheel: frame by frame with maps, in real time, and in two passes with look-ahead."""
