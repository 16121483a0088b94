"""What players saw, ready for a net: every row of every match looked at once, and kept.

    store = Store(encoder)                              # in the cache, or in a folder of your own
    clips = Clips.of(data, moments.matches, store)   # all rows of some matches, in memory
    clips.embeddings(moments.take(batch), "mean")    # [B, A, D]

A file per match holds an array [players, rows, ...] and says what made it: the encoder, the rows, the videos. One that
was made from something else is refused and told, never used; in the cache it is made anew.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import torch

from reelrl.errors import CheckpointError, ConfigError, ContentError
from reelrl.runs import checkpoint_file
from reelrl.runs.progress import Progress
from reelrl.storage.files import cache_dir, explain_os_error
from reelrl.storage.regular_files import RESULT_BYTES, check_regular, own_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from reelrl.act.location.row_encoders import RowEncoder
    from reelrl.act.location.samples import Moments
    from reelrl.act.recording.reader import Matches, MatchInfo

Pooling = Literal["mean", "last", "mean+last", "memory"]
"""How the embeddings of frames become one: the mean over a clip, the newest, or both side by side; or what a net with a
memory makes of all frames since the match began."""


class Store:
    """Arrays of matches on disk. `make=False` takes what is there and looks at no video."""

    def __init__(self, encoder: RowEncoder, folder: str | Path | None = None, *, make: bool = True) -> None:
        self.encoder, self.make, self.own = encoder, make, folder is not None
        key = hashlib.sha256(json.dumps(encoder.facts, sort_keys=True).encode()).hexdigest()
        self.folder = Path(folder) if folder is not None else cache_dir() / "location" / key[:16]

    def path(self, info: MatchInfo) -> Path:
        # Two data sets may both have a match 0007; a folder of one's own holds one data set, by names a person knows.
        name = info.id if self.own else f"{info.id}-{info.digest[:16]}"
        return self.folder / f"{name}.safetensors"

    def has(self, info: MatchInfo) -> bool:
        return self.path(info).is_file()

    def rows(self, data: Matches, info: MatchInfo, on_rows: Callable[[int], None]) -> NDArray[Any]:
        """The array of a match, made now if it was not there."""
        path = self.path(info)
        if path.is_file():
            try:
                return self._load(path, info)
            except (CheckpointError, ContentError) as error:
                if self.own or not self.make:
                    raise ContentError(f"{error}; remove it, and it will be made again from the videos") from error
                warnings.warn(f"{error}; made anew", RuntimeWarning, stacklevel=2)
        elif not self.make:
            raise ContentError(
                f"{self.folder} has nothing for match {info.id} and making it was not allowed; "
                "leave --precomputed out, with the videos at hand"
            )
        rows = self.encoder.encode(data.match(info.id), on_rows)
        checkpoint_file.save(own_path(path), 0, {"rows": rows}, {"encoder": self.encoder.facts, "videos": info.digest})
        return rows

    def _load(self, path: Path, info: MatchInfo) -> NDArray[Any]:
        try:
            check_regular(path, limit=RESULT_BYTES)
        except OSError as error:
            raise ContentError(explain_os_error(error, path, "read")) from error
        saved = checkpoint_file.load(path)
        facts = saved.state.get("encoder", saved.state.get("eyes", {}))  # "eyes" in files of version 0.1
        # Through JSON, which has lists where settings have tuples.
        for name, wanted in json.loads(json.dumps(self.encoder.facts)).items():
            if facts.get(name) != wanted:
                raise ContentError(
                    f"{path} was made with {name} {facts.get(name)!r}, and {name} {wanted!r} is asked for"
                )
        if saved.state.get("videos") != info.digest:
            raise ContentError(f"{path} was made from other videos than those of match {info.id}")
        return saved.tensors["rows"]


class RowStore(Protocol):
    """Where the arrays of matches are: our `Store`, or somebody's own."""

    @property
    def encoder(self) -> RowEncoder: ...
    def has(self, info: MatchInfo) -> bool: ...
    def rows(self, data: Matches, info: MatchInfo, on_rows: Callable[[int], None]) -> NDArray[Any]: ...


class Clips:
    """The rows of some matches, in one table."""

    def __init__(
        self, table: Tensor, players: NDArray[np.int64], counts: NDArray[np.int64], encoder: RowEncoder
    ) -> None:
        """`players` and `counts` of rows are those of each match."""
        self.table, self.encoder = table, encoder
        self._players, self._counts = players, counts
        self._starts = np.cumsum(players * counts) - players * counts

    @classmethod
    def of(cls, data: Matches, matches: Sequence[MatchInfo], store: RowStore) -> Clips:
        """Look at what was not looked at yet, with a bar that says how long it takes."""
        new = [info for info in matches if not store.has(info)]
        total = sum(info.players * -(-info.frames // store.encoder.stride) for info in new)
        with Progress("look", total, unit="frames") as progress:
            arrays = [_of_the_living(data, info, store, progress.update) for info in matches]
        shapes = {array.shape[2:] for array in arrays}
        if len(shapes) != 1:
            raise ContentError(f"matches in {data.folder} give arrays of {sorted(shapes)}; record them alike")
        table = torch.from_numpy(np.concatenate([array.reshape(-1, *array.shape[2:]) for array in arrays]))
        players, counts = np.array([array.shape[:2] for array in arrays]).T
        return cls(table, players, counts, store.encoder)

    @property
    def is_video(self) -> bool:
        return self.table.dim() == 4

    @property
    def clip_shape(self) -> tuple[int, int, int, int]:
        """T, C, H and W of `video`."""
        channels, height, width = self.table.shape[1:]
        return self.encoder.rows_per_clip, channels, height, width

    def width(self, pooling: Pooling) -> int:
        """D of `embeddings`."""
        return int(self.table.shape[1]) * (2 if pooling == "mean+last" else 1)

    def embeddings(self, moments: Moments, pooling: Pooling) -> Tensor:
        """Float32 [N, A, D]; zeros for who is not present."""
        if self.is_video:
            raise ConfigError("these are pictures, and embeddings were asked for; give the net `video`")
        rows = self.rows(moments).float()
        parts = {"mean": [rows.mean(2)], "last": [rows[:, :, -1]], "mean+last": [rows.mean(2), rows[:, :, -1]]}
        if pooling not in parts:
            raise ConfigError(f"pooling {pooling!r} is done by a net; give it the `histories`")
        return torch.cat(parts[pooling], dim=-1)

    def video(self, moments: Moments) -> Tensor:
        """uint8 [N, A, T, 3, height, width]; black for who is not present."""
        if not self.is_video:
            raise ConfigError("only precomputed embeddings are here, and video was asked for; open the pictures")
        return self.rows(moments)

    def histories(self, moments: Moments) -> tuple[Tensor, NDArray[np.int64], NDArray[np.int64]]:
        """All that the players of the moments' matches saw until the last of the moments: float32 [M, A, rows, D].

        With it, for each moment: which of the M it is in, and which row it is. The dead saw nothing: zeros.
        """
        matches, which = np.unique(moments.match, return_inverse=True)
        steps, agents = moments.row // self.encoder.stride, moments.present.shape[1]
        histories = torch.zeros(len(matches), agents, int(steps.max()) + 1, self.table.shape[1])
        for one, match in zip(histories, matches, strict=True):
            count, rows = self._counts[match], min(int(self._counts[match]), one.shape[1])
            for player in range(self._players[match]):
                start = self._starts[match] + player * count
                one[player, :rows] = self.table[start : start + rows]
        return histories, which, steps

    def rows(self, moments: Moments) -> Tensor:
        """[N, A, rows of a clip, ...]"""
        stride, frames = self.encoder.stride, self.encoder.rows_per_clip
        steps = moments.row[:, None] // stride - np.arange(frames)[::-1]
        players = np.arange(moments.present.shape[1])
        start = self._starts[moments.match][:, None] + self._counts[moments.match][:, None] * players
        index = start[..., None] + steps[:, None]
        present = torch.from_numpy(moments.present)
        rows = self.table.new_zeros(*index.shape, *self.table.shape[1:])
        rows[present] = self.table[torch.from_numpy(index)[present]]
        return rows


def _of_the_living(data: Matches, info: MatchInfo, store: RowStore, on_rows: Callable[[int], None]) -> NDArray[Any]:
    """The rows of a match, zero while the player is dead: its view is of no use then."""
    rows = store.rows(data, info, on_rows).copy()
    rows[~data.match(info.id).labels.alive[:: store.encoder.stride].T] = 0
    return rows
