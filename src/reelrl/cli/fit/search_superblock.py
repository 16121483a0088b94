"""Search what superblock maps can win on clips at most, superblock by superblock, on the aom encoder.

reel search superblock generated:street generated:talk
reel search superblock --metrics psnr_y,ssim_db,vmaf --policies psnr.yaml ssim.yaml --out search.json

The map is the same for all frames of a window. Savings are bits at equal quality against no map at one QP; `simple`
is the best map that follows one feature, `transfer` what the map found saves on the frames after the window, `policy`
what a fitted policy of that objective saves on it. Encodes are cached: a killed search goes on where it stood. Without
clips: every clip there is.
"""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any

from reelrl.cli import options, output

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("clips", nargs="*", metavar="CLIP", help="names, recipes or files")
    parser.add_argument("--metrics", default="psnr_y,ssim_db", help="what to search for (default psnr_y,ssim_db)")
    parser.add_argument("--qp", type=int, default=38, help="where rate and quality are compared (default 38)")
    parser.add_argument("--frames", type=int, default=8, metavar="N", help="of each window (default 8)")
    parser.add_argument("--refinements", type=int, default=30, metavar="N", help="encodes per metric (default 30)")
    parser.add_argument("--policies", nargs="+", default=[], metavar="FILE", help="fitted policies to compare")
    options.add_workers(parser)
    parser.add_argument("--out", metavar="FILE", help="write the results there as JSON")
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    import json

    from reelrl.content.sources import open_clip
    from reelrl.encode import EncoderSettings, capabilities
    from reelrl.encode.clip_choice import split_clips
    from reelrl.encode.superblock.map_policy import MapPolicy
    from reelrl.encode.superblock.search import SearchSettings
    from reelrl.encode.superblock.search_clips import Task, means, searched
    from reelrl.parallel import executor
    from reelrl.runs.progress import Progress
    from reelrl.storage.files import check_output, write_atomic

    clips = [open_clip(name) for name in args.clips] or split_clips("train") + split_clips("test")
    check_output(args.out, *args.policies, *(file for clip in clips for file in clip.files))
    # Only where a map is exact and a map of zeros free does a difference in bits belong to the offsets alone.
    encoder = EncoderSettings(backend="aom", qp=args.qp, picture_qp=True)
    settings = SearchSettings(encoder=encoder, refinements=args.refinements)
    policies = tuple(MapPolicy.load(path) for path in args.policies)
    tasks = [Task(clip, args.frames, tuple(args.metrics.split(",")), settings, policies) for clip in clips]
    records: list[dict[str, Any]] = []
    with Progress("search", len(tasks), unit="clips") as progress, executor(args.jobs) as work:
        for of_clip in work.map(searched, tasks, name=lambda task: task.clip.name):
            records += of_clip
            progress.update()
            for record in of_clip:
                output.line("clip", record["clip"], record["metric"], *_shown(record))
    facts = {
        "command": shlex.join(["reel", *sys.argv[1:]]),
        "encoder": f"{encoder.backend} {capabilities(encoder.backend).version}, preset {encoder.preset}, low delay",
        "qp": args.qp,
        "frames": args.frames,
    }
    averages = means(records)
    summary = {"facts": facts, "means": averages, "clips": records}
    if args.out:
        write_atomic(args.out, json.dumps(summary, indent=1) + "\n")
    if args.json:
        output.as_json(summary)
        return 0
    for mean in averages:
        output.line("mean", mean["of"], mean["metric"], *_shown(mean))
    output.next_command("reel fit superblock --objective weighted:centre -o centre.yaml")
    return 0


def _shown(record: dict[str, Any]) -> list[str]:
    """The figures of a record, or those of a mean with their intervals, in percent of bits."""
    from reelrl.encode.superblock.search_clips import FIGURES

    words = {"percent": "search"}
    parts = []
    for name in (name for name in FIGURES if name in record):
        value = record[name]
        figure = f"{value:+.2f}" if isinstance(value, float) else f"{value[0]:+.2f} [{value[1]:+.2f}, {value[2]:+.2f}]"
        parts.append(f"{words.get(name, name)} {figure}")
    return [*parts, f"{record['encodes']:g} encodes", f"{record['cpu_s']} s"]
