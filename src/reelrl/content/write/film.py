"""Films: pictures to an mp4 that any browser plays."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import av
import numpy as np

from reelrl.errors import ContentError
from reelrl.storage.files import atomic_path, writable_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


def write_film(path: str | Path, pictures: Iterable[NDArray[np.uint8]], fps: Fraction | float, zoom: int = 1) -> int:
    """Write uint8 pictures (height, width, 3) as H.264; returns how many there were. All or nothing."""
    count = 0
    writable_folder(Path(path).parent, error=ContentError)
    with (
        atomic_path(path, error=ContentError) as temporary,
        av.open(str(temporary), "w", format="mp4", options={"movflags": "faststart"}) as file,
    ):
        stream = file.add_stream("libx264", rate=Fraction(fps).limit_denominator(1000), options={"crf": "20"})
        stream.pix_fmt = "yuv420p"
        for picture in pictures:
            large = _even(picture.repeat(zoom, 0).repeat(zoom, 1))
            if not count:
                stream.height, stream.width = large.shape[:2]
            file.mux(stream.encode(av.VideoFrame.from_ndarray(large, format="rgb24")))
            count += 1
        if count:
            file.mux(stream.encode())
    if not count:
        Path(path).unlink(missing_ok=True)
        raise ContentError(f"there are no pictures for {path}")
    return count


def _even(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """H.264 with subsampled colours has even sides; a last row or column is repeated."""
    height, width = picture.shape[:2]
    return np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
