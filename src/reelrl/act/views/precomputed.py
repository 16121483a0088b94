"""Embeddings that somebody else's encoder made of recorded matches: a folder of plain arrays.

    FOLDER/embeddings.json          {"schema": 1, "encoder": "any name", "stride": 4}
    FOLDER/<match>.npy              float [players, rows, D]: of player p, the view at row stride * r

A file for each match of the data set, named as the match is; rows are the match's rows 0, stride, 2 * stride and so on,
all of them. Loading runs no code.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.errors import ContentError
from reelrl.storage.files import explain_os_error
from reelrl.storage.plain_data import parse_json
from reelrl.storage.regular_files import RESULT_BYTES, read_regular

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from reelrl.act.recording.reader import Matches, MatchInfo, MatchReader

NAME = "embeddings.json"
SCHEMA = 1
_FORMAT = f'{NAME} holds {{"schema": {SCHEMA}, "encoder": "any name", "stride": 4}}'


class PrecomputedEmbeddings:
    """Such a folder, in the place of a `Store` and of its encoder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.encoder = folder, self  # what a store says of its encoder stands in embeddings.json here
        path = folder / NAME
        try:
            data = parse_json(read_regular(path, RESULT_BYTES))
        except OSError as error:
            raise ContentError(explain_os_error(error, path, "read")) from error
        except ValueError as error:
            raise ContentError(f"{path} is damaged ({error}); {_FORMAT}") from error
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            found = data.get("schema") if isinstance(data, dict) else data
            raise ContentError(f"{path} has schema {str(found)[:50]!r}, this reelrl reads {SCHEMA}; {_FORMAT}")
        stride, name = data.get("stride"), data.get("encoder")
        if type(stride) is not int or stride < 1 or not isinstance(name, str) or not name.strip():
            raise ContentError(f"{path} says stride {stride!r} and encoder {str(name)[:50]!r}; {_FORMAT}")
        self.name, self.stride, self.rows_per_clip = name.strip()[:60], stride, 1
        self.facts: dict[str, Any] = {"encoder": self.name, "stride": stride}

    def has(self, info: MatchInfo) -> bool:
        return self.path(info).is_file()

    def path(self, info: MatchInfo) -> Path:
        return self.folder / f"{info.id}.npy"

    def encode(self, match: MatchReader, on_rows: Callable[[int], None]) -> NDArray[Any]:
        del on_rows
        return self._read(match.info)

    def rows(self, data: Matches, info: MatchInfo, on_rows: Callable[[int], None]) -> NDArray[Any]:
        """The embeddings of a match [players, rows, D]."""
        del data, on_rows
        return self._read(info)

    def _read(self, info: MatchInfo) -> NDArray[Any]:
        path = self.path(info)
        try:
            array: NDArray[Any] = np.load(io.BytesIO(read_regular(path, RESULT_BYTES)), allow_pickle=False)
        except OSError as error:
            raise ContentError(explain_os_error(error, path, "read")) from error
        except (ValueError, EOFError) as error:
            raise ContentError(f"{path} is no array ({error}); write it with numpy.save") from error
        rows = -(-info.frames // self.stride)
        if array.ndim != 3 or array.shape[:2] != (info.players, rows) or not array.shape[2]:
            raise ContentError(
                f"{path} has shape {array.shape}; match {info.id} has {info.players} players and {info.frames} rows, "
                f"of which every {self.stride}th makes [{info.players}, {rows}, D]"
            )
        if not np.issubdtype(array.dtype, np.floating) or not np.isfinite(array).all():
            raise ContentError(f"{path} holds {array.dtype} that are not all finite numbers; give finite floats")
        return array
