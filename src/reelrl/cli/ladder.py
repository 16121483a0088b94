"""Encode a clip at several rates as DASH and HLS, with the real size and quality of each segment.

reel ladder generated:street -o site/                       six rungs by quantiser
reel ladder film.mkv -o site/ --kbps 200 400 800 1600       by target rate
reel ladder film.mkv --rungs 5 --target vmaf=60..95         the sizes and CRFs that take the fewest bits
reel ladder film.mkv --rungs 5 --target vmaf=60..95 -o site/
reel play site/ --controller bola                           then watch it
reel evaluate abr --ladder site/ --qoe psnr                 or simulate it
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from reelrl import names
from reelrl.cli import options, output
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from reelrl.content.clip import Clip
    from reelrl.encode.target.ladder import TargetRung

_RUNGS = 5
_PRESET, _TARGET_PRESET = 10, 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("clip", help="a name from `reel clips`, a recipe such as generated:street, or a file")
    add("-o", "--output", metavar="FOLDER", help="where segments and manifests go")
    goal = parser.add_mutually_exclusive_group()
    goal.add_argument("--qps", type=int, nargs="+", metavar="QP", help="one quantiser per rung, highest first")
    goal.add_argument("--kbps", type=float, nargs="+", metavar="RATE", help="one target rate per rung, lowest first")
    goal.add_argument("--target", metavar="vmaf=LOW..HIGH", help="qualities: sizes and CRFs are chosen for them")
    add("--rungs", type=int, metavar="N", help=f"with --target: how many, evenly spread (default {_RUNGS})")
    add("--model", metavar="RUN", help="with --target: of `reel train target` (default: the one that ships)")
    add("--segment", type=float, default=2.0, metavar="S", help="seconds per segment (default 2)")
    add("--backend", default="svtav1", help=f"{' or '.join(names.BACKENDS)} (default svtav1)")
    add("--preset", type=int, help=f"the encoder's speed preset (default {_PRESET}, with --target {_TARGET_PRESET})")
    add("--frames", type=int, metavar="N", help="use only the first N frames")
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from reelrl.content.sources import open_clip

    _check(args)
    clip = open_clip(args.clip)
    if args.frames:
        clip = clip.window(0, min(args.frames, clip.frame_count))
    if args.preset is None:
        args.preset = _TARGET_PRESET if args.target else _PRESET
    chosen = _chosen(clip, args) if args.target else []
    if args.output is not None:
        return _encode(clip, chosen, args)
    if args.json:
        output.as_json({"rungs": [vars(rung) for rung in chosen]})
        return 0
    output.next_command(f"reel ladder {args.clip} --rungs {args.rungs or _RUNGS} --target {args.target} -o site/")
    return 0


def _check(args: argparse.Namespace) -> None:
    if args.target is None:
        for name in ("rungs", "model"):
            if getattr(args, name) is not None:
                raise ConfigError(f"--{name} goes with --target; add one, as in --target vmaf=60..95")
        if args.output is None:
            raise ConfigError("no -o FOLDER for segments and manifests; give one (only --target can do without)")
        return
    from reelrl.encode.target.lessons import SETTINGS

    if args.backend != SETTINGS.backend:
        raise ConfigError(
            f"--target with --backend {args.backend}: the model knows {SETTINGS.backend} only; leave --backend out"
        )


def _chosen(clip: Clip, args: argparse.Namespace) -> list[TargetRung]:
    """Rungs by the model; what they are is printed."""
    from reelrl.content.quality import vmaf_program
    from reelrl.encode.target.goal import quality_range
    from reelrl.encode.target.ladder import ENCODES, choose_rungs, size_curves, sizes_of, targets_between
    from reelrl.encode.target.model_file import find_models
    from reelrl.runs.progress import Progress

    targets = targets_between(*quality_range(args.target), args.rungs or _RUNGS)
    vmaf_program()  # complain now, not at the first score
    models, _ = find_models(args.model)
    with Progress("sample", ENCODES * len(sizes_of(clip.width, clip.height)), unit="encodes") as progress:
        rungs = choose_rungs(size_curves(clip, models, args.preset, progress.update), targets)
    for number, rung in enumerate(rungs):
        size, rate = f"{rung.width}x{rung.height}", f"{rung.kbps:.0f} kbit/s expected"
        output.line("choose", number, size, f"CRF {rung.crf:g}", f"VMAF {rung.expected:.1f} expected", rate)
    if len(rungs) < len(targets):
        output.line("note", f"{len(targets)} rungs were asked for; sizes and CRFs give {len(rungs)} that differ")
    return rungs


def _encode(clip: Clip, chosen: list[TargetRung], args: argparse.Namespace) -> int:
    from reelrl.runs.progress import Progress
    from reelrl.storage.files import writable_folder
    from reelrl.stream.data.ladder_encoding import LadderSettings, encode_ladder

    if args.kbps and not all(0 < rate < math.inf for rate in args.kbps):
        raise ConfigError(f"--kbps {' '.join(f'{rate:g}' for rate in args.kbps)}; give kbit/s above zero")
    rungs: dict[str, Any] = {"qps": tuple(args.qps)} if args.qps else {}
    if chosen:
        rungs = {
            "crfs": tuple(each.crf for each in chosen),
            "sizes": tuple((each.width, each.height) for each in chosen),
        }
    settings = LadderSettings(
        segment_s=args.segment, kbps=tuple(args.kbps or ()), backend=args.backend, preset=args.preset, **rungs
    )
    folder = writable_folder(args.output)
    with Progress("encode", unit="segments") as progress:
        ladder = encode_ladder(clip, folder, settings, lambda _segment, _rung: progress.update())
    if args.json:
        output.as_json(ladder.as_json() | ({"rungs": [vars(rung) for rung in chosen]} if chosen else {}))
        return 0
    video = ladder.video()
    for rung, kbps in enumerate(ladder.bitrates_kbps):
        quality = (
            f"PSNR {ladder.quality['psnr'][:, rung].mean():.2f} dB   SSIM {ladder.quality['ssim'][:, rung].mean():.4f}"
        )
        output.line("rung", rung, f"{kbps:.0f} kbit/s", f"{video.chunks} segments of {video.chunk_s:g} s", quality)
    output.next_command(f"reel evaluate abr rate bba bola robustmpc oracle --ladder {folder} --qoe psnr")
    return 0
