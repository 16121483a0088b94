"""Scalars, pictures and histograms that TensorBoard shows, written without torch or TensorFlow.

Events are written by the caller's thread into one file: no worker thread to lose them, nothing to go wrong at a fork.
"""

from __future__ import annotations

import io
import os
import time
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.histogram_pb2 import HistogramProto
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from reelrl.errors import RunError
from reelrl.storage.files import explain_os_error, writable_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray

_serial = count()


class Board:
    """A writer of one TensorBoard event file, created with the first event.

    `resumed_at` tells TensorBoard to forget what earlier files in the folder say about that step and later ones.
    """

    def __init__(self, folder: Path, *, resumed_at: int | None = None) -> None:
        self._folder = folder
        self._resumed_at = resumed_at
        self._records: Any = None

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        tags = [Summary.Value(tag=tag, simple_value=float(value)) for tag, value in values.items()]
        self._write(step, Summary(value=tags))

    def image(self, tag: str, step: int, picture: NDArray[np.uint8]) -> None:
        """`picture` is uint8, (height, width) grey or (height, width, 3) RGB."""
        png = _png(picture)
        image = Summary.Image(height=picture.shape[0], width=picture.shape[1], encoded_image_string=png)
        self._write(step, Summary(value=[Summary.Value(tag=tag, image=image)]))

    def histogram(self, tag: str, step: int, values: ArrayLike, bins: int = 30) -> None:
        """The distribution of the finite ones of `values`; none are not written."""
        flat = np.asarray(values, np.float64).ravel()
        flat = flat[np.isfinite(flat)]
        if flat.size:
            self._write(step, Summary(value=[Summary.Value(tag=tag, histo=_histogram(flat, bins))]))

    def flush(self) -> None:
        if self._records is not None:
            self._guard(self._records.flush)

    def close(self) -> None:
        records, self._records = self._records, None
        if records is not None:
            self._guard(records.close)

    def _write(self, step: int, summary: Summary) -> None:
        self._guard(self._append, Event(wall_time=time.time(), step=step, summary=summary))

    def _append(self, event: Event) -> None:
        if self._records is None:
            self._records = self._open()
        try:
            self._records.write(event.SerializeToString())
        except OSError:
            # A record cut short by a full disk hides all behind it: the next event opens a new file.
            with suppress(OSError):
                self._records.close()
            self._records = None
            raise

    def _open(self) -> Any:
        writable_folder(self._folder, error=RunError)
        name = f"events.out.tfevents.{time.time():.6f}.reelrl.{os.getpid()}.{next(_serial)}"
        records = RecordWriter((self._folder / name).open("xb"))
        records.write(Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())
        if self._resumed_at is not None:
            start = SessionLog(status=SessionLog.START)
            records.write(Event(wall_time=time.time(), step=self._resumed_at, session_log=start).SerializeToString())
        return records

    def _guard(self, action: Any, *arguments: Any) -> None:
        try:
            action(*arguments)
        except OSError as error:
            raise RunError(explain_os_error(error, self._folder, "write")) from error


def _png(picture: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    grey = picture.ndim == 2
    if picture.dtype != np.uint8 or not (grey or (picture.ndim == 3 and picture.shape[2] == 3)):
        raise RunError(f"picture is {picture.dtype} {picture.shape}; give uint8, (height, width) or (height, width, 3)")
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "PNG")
    return buffer.getvalue()


def _histogram(values: NDArray[np.float64], bins: int) -> HistogramProto:
    counts, edges = np.histogram(values, bins)
    return HistogramProto(
        min=values.min(),
        max=values.max(),
        num=values.size,
        sum=values.sum(),
        sum_squares=np.square(values).sum(),
        bucket_limit=edges[1:].tolist(),
        bucket=counts.tolist(),
    )
