"""How the rows of a match are looked at before a net sees them: by a frozen encoder, or as small pictures.

A frozen encoder gives embeddings, which are all the net then needs. A net that trains its own encoder needs pictures.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from reelrl import config
from reelrl.act.video_encoder import ENCODERS, ClipShape, encode_frozen, frozen_video_encoder
from reelrl.names import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from reelrl.act.location.samples import SampleSettings
    from reelrl.act.recording.reader import Match
    from reelrl.act.video_encoder import VideoEncoderSettings

_AT_ONCE = 64  # rows that are decoded and encoded together


class Eyes(Protocol):
    """Turns the rows of a match, `stride` apart, into arrays."""

    stride: int
    rows_per_clip: int
    """How many of them make a clip: 1 where each is a clip already."""
    facts: dict[str, Any]
    """All that the arrays depend on, besides the videos."""

    def look(self, match: Match, on_rows: Callable[[int], None]) -> NDArray[Any]:
        """[players, rows, ...]; `on_rows` hears how many are done."""
        ...


class FrozenEyes:
    """An encoder that does not learn: [players, rows, embed_dim], in half precision."""

    def __init__(self, encoder: VideoEncoderSettings, samples: SampleSettings) -> None:
        self.encoder, self.stride = encoder, samples.stride
        frame_by_frame = resolve(ENCODERS, encoder.model_type).per_frame
        self.rows_per_clip, self._frames = (samples.frames, 1) if frame_by_frame else (1, samples.frames)
        self.facts: dict[str, Any] = {
            "encoder": config.to_mapping(encoder),
            "weights": _digest(encoder.weights),
            "stride": self.stride,
            "frames": self._frames,
        }

    def look(self, match: Match, on_rows: Callable[[int], None]) -> NDArray[np.float16]:
        return np.stack([np.concatenate(list(self._player(match, p, on_rows))) for p in range(match.info.players)])

    def _player(self, match: Match, player: int, on_rows: Callable[[int], None]) -> Iterator[NDArray[np.float16]]:
        rows = np.arange(0, match.info.frames, self.stride)
        # The first clips begin before the match does: its first frame is repeated.
        clips = np.maximum(rows[:, None] - self.stride * np.arange(self._frames)[::-1], 0)
        for start in range(0, len(clips), _AT_ONCE):
            chosen = clips[start : start + _AT_ONCE]
            pictures = torch.from_numpy(match.frames(player, chosen.reshape(-1)))
            video = torch.unflatten(pictures.permute(0, 3, 1, 2), 0, chosen.shape)
            encoder = frozen_video_encoder(self.encoder, ClipShape(*video.shape[1:]))
            yield encode_frozen(encoder, video)[:, -1].half().numpy()
            on_rows(len(chosen))


class Thumbnails:
    """Small pictures for a net that trains its own encoder: uint8 [players, rows, 3, height, width]."""

    def __init__(self, height: int, width: int, samples: SampleSettings) -> None:
        self.height, self.width = height, width
        self.stride, self.rows_per_clip = samples.stride, samples.frames
        self.facts: dict[str, Any] = {"pictures": [height, width], "stride": self.stride}

    def look(self, match: Match, on_rows: Callable[[int], None]) -> NDArray[np.uint8]:
        import cv2

        rows = np.arange(0, match.info.frames, self.stride)
        seen = np.empty((match.info.players, len(rows), 3, self.height, self.width), np.uint8)
        for player in range(match.info.players):
            for start in range(0, len(rows), _AT_ONCE):
                pictures = match.frames(player, rows[start : start + _AT_ONCE])
                small = [cv2.resize(p, (self.width, self.height), interpolation=cv2.INTER_AREA) for p in pictures]
                seen[player, start : start + len(small)] = np.stack(small).transpose(0, 3, 1, 2)
                on_rows(len(small))
        return seen


def _digest(weights: str | None) -> str | None:
    """Of a file: an encoder trained further under the same name is another encoder."""
    if weights is None or not Path(weights).is_file():
        return weights
    with Path(weights).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
