"""What there is to gain over the rule on one clip at one bitrate: evolution of an offset for each frame.

It codes the clip hundreds of times, so it is no way to encode but a bound from below on what an agent could learn, and
what `imitated` makes a linear rule of.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reelrl.content.sources import open_clip
from reelrl.encode.evolution import Evolution, evolve
from reelrl.encode.frameqp.controllers.evolved import inputs
from reelrl.encode.frameqp.fit import FrameLesson, FrameTrial, Gain, episode_of, gain_of
from reelrl.errors import CheckpointError
from reelrl.storage.plain_data import parse_object
from reelrl.storage.regular_files import read_regular

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from reelrl.encode.frameqp.protocols import FrameQpEpisode

_KINDS = ("key", "golden", "arf", "inner_arf", "overlay")
_WINDOW = 8  # frames that share an offset
_RIDGE = 1.0  # how much weights are pulled to zero


@dataclass(frozen=True)
class Found:
    """The best offsets on one lesson, in steps, with their gain and the best gain after each generation."""

    lesson: FrameLesson
    offsets: tuple[float, ...]
    gain: Gain
    curve: tuple[float, ...]
    encodes: int


@dataclass(frozen=True)
class SearchTask:
    """`seconds` ends a search after the generation under way."""

    lesson: FrameLesson
    plan: Evolution
    seconds: float = float("inf")


def search(task: SearchTask) -> Found:
    """Evolve offsets: one per kind of frame, one per eight frames, one for each frame that others refer to."""
    columns = basis(episode_of(task.lesson))
    until = time.monotonic() + task.seconds
    found = evolve(
        lambda candidates: [
            gain_of(FrameTrial(task.lesson, _offsets(columns, each), True)).charged for each in candidates
        ],
        columns.shape[1],
        task.plan,
        lambda _, __: time.monotonic() < until,
    )
    offsets = _offsets(columns, np.array(found.best))
    gain = gain_of(FrameTrial(task.lesson, offsets, True))
    return Found(task.lesson, offsets, gain, found.curve, len(found.curve) * task.plan.candidates)


def basis(episode: FrameQpEpisode) -> NDArray[np.float64]:
    """[planned frames, numbers to search]"""
    plan = episode.plan
    columns = [[each.kind == kind for each in plan] for kind in _KINDS]
    columns += [[each.frame // _WINDOW == window for each in plan] for window in range(-(-episode.frames // _WINDOW))]
    columns += [[other is each for other in plan] for each in plan if each.kind not in ("leaf", "overlay")]
    used = [column for column in columns if any(column)]
    return np.array(used, np.float64).T


def imitated(found: Sequence[Found]) -> NDArray[np.float64]:
    """Weights of a linear rule that comes nearest to what was found, frame by frame."""
    seen = np.concatenate([_centred(inputs(episode_of(each.lesson))) for each in found])
    wanted = np.concatenate([_centred(np.array(each.offsets)) for each in found])
    weights: NDArray[np.float64] = np.linalg.solve(seen.T @ seen + _RIDGE * np.eye(seen.shape[1]), seen.T @ wanted)
    return weights


def load_found(path: str) -> list[Found]:
    """What a search wrote; its clips are opened by name."""
    try:
        rows = parse_object(read_regular(path, follow_links=True))["found"]
        if not rows:
            raise ValueError("nothing found")
        return [
            Found(
                FrameLesson(open_clip(row["clip"]), int(row["frames"]), int(row["qp"])),
                tuple(map(float, row["offsets"])),
                Gain(*(float(row[name]) for name in Gain._fields)),
                tuple(map(float, row["curve"])),
                int(row["encodes"]),
            )
            for row in rows
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path} holds no search ({type(error).__name__}: {error}); make one: reel search frameqp --out {path}"
        ) from error


def _centred(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """What all frames have in common says nothing: the bitrate decides it."""
    return np.asarray(values - values.mean(axis=0))


def _offsets(columns: NDArray[np.float64], candidate: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple((columns @ candidate).tolist())
