"""Live coding: one frame in, one QP out, nothing known of later frames, a buffer that must not overflow."""
