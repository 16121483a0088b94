"""Encode a clip with a map of QP offsets: the left half finer, the right half coarser.

python examples/01_encode_with_a_map.py [FOLDER]      writes half.mp4 there
"""

import sys
from pathlib import Path

import numpy as np

from reelrl.content import open_clip
from reelrl.encode import EncoderSettings, encode_clip

clip = open_clip("generated:street?size=256x128&frames=12").load()
rows, columns = clip.grid
offsets = np.zeros((rows, columns), np.int32)
offsets[:, : columns // 2] = -3  # QP steps: lower is finer and takes more bits
offsets[:, columns // 2 :] = 3

settings = EncoderSettings(backend="aom", qp=44)
plain = encode_clip(clip, settings)
mapped = encode_clip(clip, settings, lambda _number, _frame: {"offsets": offsets})


def half_error(coded, half):
    """Mean squared error of luma in one half of the picture."""
    pairs = zip(clip, coded.packets, strict=True)
    return np.mean([(frame.y[:, half].astype(float) - packet.recon.y[:, half]) ** 2 for frame, packet in pairs])


for name, coded in (("no map", plain), ("map", mapped)):
    left, right = (half_error(coded, half) for half in (np.s_[:128], np.s_[128:]))
    print(f"{name:<7} {coded.size_bytes:6} bytes   error left {left:6.1f}   right {right:6.1f}")

mapped.save(Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "half.mp4")
