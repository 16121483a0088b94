"""How the rows of a match are encoded before a net sees them: by a frozen encoder, or as small pictures.

A frozen encoder gives embeddings, which are all the net then needs. A net that trains its own encoder needs pictures.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from reelrl.act.video.encoder import ENCODERS, FORMER_ENCODERS, ClipShape, encode_frozen, frozen_video_encoder
from reelrl.errors import ConfigError
from reelrl.names import resolve
from reelrl.settings import config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from reelrl.act.location.samples import SampleSettings
    from reelrl.act.recording.reader import MatchReader
    from reelrl.act.video.encoder import VideoEncoderSettings

_AT_ONCE = 64  # rows that are decoded and encoded together


class RowEncoder(Protocol):
    """Turns the rows of a match, `stride` apart, into arrays."""

    stride: int
    rows_per_clip: int
    """How many of them make a clip: 1 where each is a clip already."""
    facts: dict[str, Any]
    """All that the arrays depend on, besides the videos."""

    def encode(self, match: MatchReader, on_rows: Callable[[int], None]) -> NDArray[Any]:
        """[players, rows, ...]; `on_rows` hears how many are done."""
        ...


class FrozenRowEncoder:
    """An encoder that does not learn: [players, rows, embed_dim], in half precision.

    A frame reader reads `frames_per_row` frames from one row to the next, and says last what it has to say of them; an
    encoder of clips gets a whole clip.
    """

    def __init__(
        self,
        encoder: VideoEncoderSettings,
        samples: SampleSettings,
        size: tuple[int, int] | None = None,
        frames_per_row: int = 1,
        device: str | torch.device = "cpu",
    ) -> None:
        self.encoder, self.size, self.stride, self.device = encoder, size, samples.stride, device
        alone = resolve(ENCODERS, encoder.model_type, foreign=True).per_frame
        if frames_per_row > 1 and encoder.model_type != "frame-reader":
            raise ConfigError(
                f"frames_per_row is {frames_per_row}; only a frame reader puts several frames together: give 1, or "
                "--frame-reader RUN"
            )
        if self.stride % frames_per_row:
            raise ConfigError(
                f"frames_per_row is {frames_per_row}, and rows are {self.stride} frames apart; give a number that "
                "divides it"
            )
        one_row = (frames_per_row, self.stride // frames_per_row)
        self._frames, self._apart = one_row if alone else (samples.frames, self.stride)
        self.rows_per_clip = samples.frames if alone else 1
        self.facts: dict[str, Any] = {
            "encoder": encoder_facts(encoder),
            "stride": self.stride,
            "frames": [self._frames, self._apart],
            "pictures": list(size) if size else None,
        }

    def encode(self, match: MatchReader, on_rows: Callable[[int], None]) -> NDArray[np.float16]:
        return np.stack([np.concatenate(list(self._player(match, p, on_rows))) for p in range(match.info.players)])

    def _player(self, match: MatchReader, player: int, on_rows: Callable[[int], None]) -> Iterator[NDArray[np.float16]]:
        rows = np.arange(0, match.info.frames, self.stride)
        # The first clips begin before the match does: its first frame is repeated.
        clips = np.maximum(rows[:, None] - self._apart * np.arange(self._frames)[::-1], 0)
        for start in range(0, len(clips), _AT_ONCE):
            chosen = clips[start : start + _AT_ONCE]
            pictures = _pictures(match, player, chosen.reshape(-1), self.size)
            video = torch.unflatten(torch.from_numpy(pictures), 0, chosen.shape)
            encoder = frozen_video_encoder(self.encoder, ClipShape(*video.shape[1:]), self.device)
            yield encode_frozen(encoder, video.to(self.device))[:, -1].half().cpu().numpy()
            on_rows(len(chosen))


class Thumbnails:
    """Pictures for a net that trains its own encoder: uint8 [players, rows, 3, height, width]."""

    def __init__(self, samples: SampleSettings, size: tuple[int, int] | None = None) -> None:
        self.size, self.stride, self.rows_per_clip = size, samples.stride, samples.frames
        self.facts: dict[str, Any] = {"pictures": list(size) if size else None, "stride": self.stride}

    def encode(self, match: MatchReader, on_rows: Callable[[int], None]) -> NDArray[np.uint8]:
        rows = np.arange(0, match.info.frames, self.stride)
        players = []
        for player in range(match.info.players):
            parts = []
            for start in range(0, len(rows), _AT_ONCE):
                parts.append(_pictures(match, player, rows[start : start + _AT_ONCE], self.size))
                on_rows(len(parts[-1]))
            players.append(np.concatenate(parts))
        return np.stack(players)


def _pictures(
    match: MatchReader, player: int, rows: NDArray[np.int64], size: tuple[int, int] | None
) -> NDArray[np.uint8]:
    """[rows, 3, height, width], shrunk to a size or as recorded; small ones are not enlarged."""
    pictures = match.frames(player, rows)
    if size is not None and pictures.shape[1] > size[0]:
        import cv2

        pictures = np.stack([cv2.resize(each, size[::-1], interpolation=cv2.INTER_AREA) for each in pictures])
    return np.ascontiguousarray(pictures.transpose(0, 3, 1, 2))


def encoder_facts(encoder: VideoEncoderSettings) -> dict[str, Any]:
    """What an encoder gives depends on; written as in version 0.1, so that embeddings made then are found again."""
    former = {today: before for before, today in FORMER_ENCODERS.items()}
    facts = config.to_mapping(replace(encoder, weights=None))
    facts["model_type"] = former.get(encoder.model_type, encoder.model_type)
    # Weights by what they are: the same file elsewhere is the same encoder, another one there is not.
    return facts | {"weights": _digest(encoder.weights)}


def _digest(weights: str | None) -> str | None:
    """Of a file: an encoder trained further under the same name is another encoder."""
    if weights is None or not Path(weights).is_file():
        return weights
    with Path(weights).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
