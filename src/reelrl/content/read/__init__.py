"""Frames out of files: y4m, raw yuv, whatever PyAV opens; in order, or one by one."""
