"""Encode a clip at several rates as DASH and HLS, with the real size and quality of each segment.

reel ladder generated:street -o site/                       six rungs by quantiser
reel ladder film.mkv -o site/ --kbps 200 400 800 1600       by target rate
reel play site/ --controller bola                           then watch it
reel evaluate abr --ladder site/ --qoe psnr                 or simulate it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelrl import names
from reelrl.cli import options, output

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("clip", help="a name from `reel clips`, a recipe such as generated:street, or a file")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="where segments and manifests go")
    parser.add_argument("--qps", type=int, nargs="+", metavar="QP", help="one quantiser per rung, highest first")
    parser.add_argument("--kbps", type=float, nargs="+", metavar="RATE", help="one target rate per rung, lowest first")
    parser.add_argument("--segment", type=float, default=2.0, metavar="S", help="seconds per segment (default 2)")
    parser.add_argument("--backend", default="svtav1", help=f"{' or '.join(names.BACKENDS)} (default svtav1)")
    parser.add_argument("--preset", type=int, default=10, help="the encoder's speed preset (default 10)")
    parser.add_argument("--frames", type=int, metavar="N", help="use only the first N frames")
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from reelrl.content.sources import open_clip
    from reelrl.runs.progress import Progress
    from reelrl.storage.files import writable_folder
    from reelrl.stream.data.ladder_encoding import LadderSettings, encode_ladder

    chosen = {"qps": tuple(args.qps)} if args.qps else {}
    settings = LadderSettings(
        segment_s=args.segment, kbps=tuple(args.kbps or ()), backend=args.backend, preset=args.preset, **chosen
    )
    clip = open_clip(args.clip)
    if args.frames:
        clip = clip.window(0, min(args.frames, clip.frame_count))
    folder = writable_folder(args.output)
    with Progress("encode", unit="segments") as progress:
        ladder = encode_ladder(clip, folder, settings, lambda _segment, _rung: progress.update())
    if args.json:
        output.as_json(ladder.as_json())
        return 0
    video = ladder.video()
    for rung, kbps in enumerate(ladder.bitrates_kbps):
        quality = (
            f"PSNR {ladder.quality['psnr'][:, rung].mean():.2f} dB   SSIM {ladder.quality['ssim'][:, rung].mean():.4f}"
        )
        output.line("rung", rung, f"{kbps:.0f} kbit/s", f"{video.chunks} segments of {video.chunk_s:g} s", quality)
    output.next_command(f"reel evaluate abr rate bba bola robustmpc oracle --ladder {folder} --qoe psnr")
    return 0
