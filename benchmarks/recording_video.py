"""What a recorded view costs, as AV1 and lossless: bytes on disk, time to write, time to read.

    python benchmarks/recording_video.py

The pictures are one player's of a match of 40 seconds, played for the purpose. Speeds are pictures a second of
processor time (all threads), the best of three, kinds taking turns.

  bytes    per picture, and how many times smaller than its pixels
  write    into the file
  read     all in order
  clip     four pictures with three rows between them, anywhere in the file: clips a second, and pictures decoded each
  error    PSNR over all pixels in dB; "exact" where every bit came back
"""

from __future__ import annotations

import time
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from reelrl.act.doom.match import Match
from reelrl.act.recording.labels import row_of
from reelrl.act.recording.manifest import TICRATE, RecordingSettings
from reelrl.act.recording.roaming import RoamingTeam
from reelrl.act.recording.survey import survey
from reelrl.content.read.random_access import RandomAccessVideo
from reelrl.names import VIDEO_WRITERS, resolve

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Pictures = NDArray[np.uint8]

ROUNDS, CLIPS, CLIP_ROWS = 3, 60, np.array([0, 4, 8, 12])


def main() -> None:
    pictures = played()
    random = np.random.default_rng(0)
    starts = random.integers(0, len(pictures) - CLIP_ROWS[-1], CLIPS)
    with TemporaryDirectory() as folder:
        results: dict[str, list[dict[str, float]]] = {kind: [] for kind in VIDEO_WRITERS}
        for _ in range(ROUNDS):
            for kind in results:
                results[kind].append(measured(kind, pictures, starts, Path(folder)))
    print(f"{len(pictures)} pictures of {pictures.shape[2]}x{pictures.shape[1]}")
    print(f"{'':<10}{'bytes':>16}{'write':>9}{'read':>9}{'clip':>18}{'error':>10}")
    for kind, rounds in results.items():
        best = {name: max(each[name] for each in rounds) for name in rounds[0]}
        times = pictures[0].nbytes / best["bytes"]
        error = "exact" if np.isinf(best["psnr"]) else f"{best['psnr']:.1f} dB"
        print(
            f"{kind:<10}{best['bytes']:>8.0f} {times:>4.1f}:1{best['write']:>8.0f}/s{best['read']:>7.0f}/s"
            f"{best['clip']:>8.0f}/s {best['decoded']:>5.1f} dec{error:>10}"
        )


def played() -> Pictures:
    """What one player sees in a match."""
    settings = RecordingSettings()
    team = RoamingTeam(survey("haunted_rooms"), settings.players, seed=1)
    match = Match(settings.match("haunted_rooms"), seed=1, sightings=True)
    pictures = []
    try:
        for _ in range(settings.rows):
            pictures.append(match.pictures[0].transpose(1, 2, 0))
            match.step(team.act(row_of(match.facts, match.sightings)))
    finally:
        match.close()
    return np.ascontiguousarray(pictures)


def measured(kind: str, pictures: Pictures, starts: NDArray[np.int64], folder: Path) -> dict[str, float]:
    writer = resolve(VIDEO_WRITERS, kind)
    path = folder / f"view{writer.suffix}"
    height, width = pictures.shape[1:3]

    def write() -> None:
        with writer(path, width, height, Fraction(TICRATE, 4)) as file:
            for picture in pictures:
                file.write(picture)

    write_s = processor_s(write)
    video = RandomAccessVideo(path)
    read: list[Pictures] = []
    read_s = processor_s(lambda: read.append(video.pictures(range(len(pictures)))))
    before = video.decoded
    clip_s = processor_s(lambda: [video.pictures(start + CLIP_ROWS) for start in starts])
    decoded = (video.decoded - before) / len(starts)
    video.close()
    error = float(np.mean((read[0].astype(float) - pictures) ** 2))
    return {
        "bytes": path.stat().st_size / len(pictures),
        "write": len(pictures) / write_s,
        "read": len(pictures) / read_s,
        "clip": len(starts) / clip_s,
        "decoded": decoded,
        "psnr": 10 * np.log10(255**2 / error) if error else np.inf,
    }


def processor_s(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    main()
