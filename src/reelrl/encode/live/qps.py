"""The QPs that live coding chooses from."""

from __future__ import annotations

import numpy as np

QPS = np.arange(1, 64)
"""What a frame may be coded at; curves have an entry for each."""
