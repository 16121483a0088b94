"""Ladders by the model against the full grid of encodes: what is lost in BD-rate, and how many encodes are saved.

python benchmarks/quality_ladder.py LESSONS VIDEO[@FIRST] ... [--rungs 5] [--out ladders.json]

For each video, 48 frames from FIRST on are coded at every size and every CRF of a grid by preset 8, and scored at full
size: the hull of these is the best that can be chosen. The model is fitted to LESSONS (of quality_target.py) without
the video's source; the rungs that it chooses are then coded, and their true rates and VMAFs compared with the hull.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from _target_scenes import FRAMES
from quality_target import read

from reelrl.content.scaling import scaled, scaled_clip
from reelrl.content.sources import open_clip
from reelrl.encode.codecs.whole_clip import encode_clip
from reelrl.encode.target.fit import fitted
from reelrl.encode.target.ladder import ENCODES, FIGURE, choose_rungs, size_curves, sizes_of, targets_between
from reelrl.encode.target.lessons import BITS, SETTINGS
from reelrl.encode.target.measured import at_crf, cpu_s, thirds
from reelrl.encode.target.scenes import source_of
from reelrl.encode.target.scores import frame_scores
from reelrl.report.bd_rate import Point, bd_rate
from reelrl.storage.files import write_atomic

if TYPE_CHECKING:
    from reelrl.content.clip import Clip

CRFS = (22, 30, 37, 43, 49, 55, 61, 63)
PRESET = 8


def coded(clip: Clip, width: int, height: int, crf: float) -> Point:
    """One encode of the clip at a size, every third frame scored at full size."""
    small = scaled_clip(clip, width, height).load()
    packets = encode_clip(small, at_crf(replace(SETTINGS, preset=PRESET).for_clip(small), crf)).packets
    shown = [scaled(packet.recon, clip.width, clip.height) for packet in packets if packet.recon is not None]
    scores = frame_scores("vmaf", thirds(clip.frame_count), list(clip), shown)
    return Point(sum(packet.size for packet in packets) * 8 / clip.duration_s / 1000, float(scores.mean()))


def hull(grid: dict[tuple[int, int], list[Point]], low: float, high: float, count: int = 12) -> list[Point]:
    """Points from one quality to another that no other beats in rate and quality, over all sizes.

    Between encodes of a size, the logarithm of the rate is linear in quality.
    """
    dense: list[Point] = []
    for points in grid.values():
        known = sorted(points, key=lambda point: point.quality)
        qualities = np.linspace(known[0].quality, known[-1].quality, 400)
        logs = np.interp(qualities, [point.quality for point in known], np.log([point.kbps for point in known]))
        dense += [Point(*each) for each in zip(np.exp(logs).tolist(), qualities.tolist(), strict=True)]
    best: list[Point] = []
    for point in sorted(dense, key=lambda each: (-each.quality, each.kbps)):
        if not best or point.kbps < best[-1].kbps:
            best.append(point)
    within = [point for point in best if low <= point.quality <= high]
    return [within[place] for place in np.unique(np.linspace(0, len(within) - 1, count).astype(int))]


def grids(path: str | None) -> dict[str, tuple[dict[tuple[int, int], list[Point]], float]]:
    """By clip, grids of an earlier run and the CPU seconds that they took: the encodes are the same."""
    if path is None or not Path(path).exists():
        return {}
    found = {}
    for row in json.loads(Path(path).read_bytes()):
        sizes = {tuple(map(int, size.split("x"))): [Point(*each) for each in row["grid"][size]] for size in row["grid"]}
        found[row["clip"]] = (sizes, row["grid_s"])
    return found  # type: ignore[return-value]


def judge(name: str, args: argparse.Namespace) -> dict[str, Any]:
    video, _, first = name.partition("@")
    clip = open_clip(video)
    start = int(first or 0)
    clip = clip.window(start, min(FRAMES, clip.frame_count - start)).load()
    others = [each for each in read(args.lessons).values() if each.source != source_of(open_clip(video).source)]
    models = {figure: fitted(figure, others) for figure in (FIGURE, BITS)}
    begin_s = cpu_s()
    curves = size_curves(clip, models, PRESET)
    rungs = choose_rungs(curves, targets_between(args.low, args.high, args.rungs))
    model_s, begin_s = cpu_s() - begin_s, cpu_s()
    sizes = sizes_of(clip.width, clip.height)
    grid, grid_s = grids(args.out).get(clip.name, ({size: [] for size in sizes}, 0.0))
    for size, points in grid.items():
        points += [coded(clip, *size, crf) for crf in CRFS[len(points) :]]
    grid_s += cpu_s() - begin_s
    got = [coded(clip, rung.width, rung.height, rung.crf) for rung in rungs]
    low, high = got[0].quality, got[-1].quality
    best = hull(grid, low, high)
    loss = bd_rate(best, got)
    full_size = bd_rate(best, hull({sizes[0]: grid[sizes[0]]}, low, high))
    result: dict[str, Any] = {
        "clip": clip.name,
        "size": f"{clip.width}x{clip.height}",
        "rungs": [
            vars(rung) | {"got": point.quality, "got_kbps": point.kbps} for rung, point in zip(rungs, got, strict=True)
        ],
        "bd_rate_percent": loss.percent,
        "doubts": loss.doubts,
        "bd_rate_of_full_size_percent": full_size.percent,
        "encodes": ENCODES * len(sizes),
        "grid_encodes": len(sizes) * len(CRFS),
        "grid_s": grid_s,
        "cpu_ratio": model_s / grid_s,
        "grid": {f"{width}x{height}": points for (width, height), points in grid.items()},
    }
    for rung, point in zip(rungs, got, strict=True):
        print(
            f"{clip.name:<36} {rung.width}x{rung.height}   CRF {rung.crf:5.2f}   expected {rung.expected:5.1f}   "
            f"got {point.quality:5.1f}   {rung.kbps:6.0f} -> {point.kbps:6.0f} kbit/s"
        )
    print({name: value for name, value in result.items() if name not in ("rungs", "grid")}, flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lessons")
    parser.add_argument("videos", nargs="+")
    parser.add_argument("--rungs", type=int, default=5)
    parser.add_argument("--low", type=float, default=60.0)
    parser.add_argument("--high", type=float, default=95.0)
    parser.add_argument("--out")
    args = parser.parse_args()
    results = [judge(name, args) for name in args.videos]
    if args.out:
        write_atomic(Path(args.out), json.dumps(results, indent=1).encode())


if __name__ == "__main__":
    main()
