"""Pictures to a file that gives them back bit for bit: FFV1 in Matroska, every picture on its own."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

import av
import numpy as np

from reelrl.content.write.output_file import OutputFile
from reelrl.errors import ContentError
from reelrl.storage.files import explain_os_error

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction
    from pathlib import Path

    from numpy.typing import NDArray

# The range coder with its own tables is a sixth smaller than the default here, at nearly the same speed.
_OPTIONS = {"level": "3", "coder": "range_def", "g": "1"}


class LosslessWriter:
    """Writes uint8 RGB pictures (height, width, 3); the file is whole after `close`."""

    suffix = ".mkv"

    def __init__(self, path: Path, width: int, height: int, fps: Fraction) -> None:
        self._path = path
        try:
            self._file = OutputFile(path)
        except OSError as error:
            raise ContentError(explain_os_error(error, path, "write")) from error
        self._container = av.open(self._file, "w", format="matroska", options={"fflags": "bitexact"})
        self._stream = self._container.add_stream("ffv1", rate=fps, options=_OPTIONS)
        self._stream.width, self._stream.height, self._stream.pix_fmt = width, height, "bgr0"
        self._stream.codec_context.thread_count = 1

    def write(self, picture: NDArray[np.uint8]) -> None:
        self._mux(av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24"))

    def close(self) -> None:
        """Finish the file; a second call does nothing."""
        if self._file.closed:
            return
        self._mux(None)
        with self._failures():
            self._container.close()
            self._file.close()

    def abort(self) -> None:
        """Let go of a file that nobody wants any more."""
        self._file.give_up()

    def _mux(self, frame: av.VideoFrame | None) -> None:
        with self._failures():
            self._container.mux(self._stream.encode(frame))

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            with self._file.failures():
                yield
        except av.FFmpegError as error:
            raise ContentError(f"cannot write {self._path}: {error}; write the pictures again") from error
        except OSError as error:
            raise ContentError(explain_os_error(error, self._path, "write")) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()
