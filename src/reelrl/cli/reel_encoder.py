"""A real AV1 encoder program that lets a trainer decide: the reference for porting your own.

The protocol: docs/how-to/steer-your-own-encoder.md

reel-encoder --input in.y4m --o out.ivf --csv out.csv --bitrate 500 --rc-mode 1 --rl-dir ./rl_io
reel-encoder --input in_1920x1080_24.yuv --o out.ivf --crf 40

Where the folder of --rl-dir exists, a trainer there is asked for the QP of every mini-GOP (--rc-mode 1: the bitrate is
its budget); when it does not answer in time, the encoder's own QP is used. Without the folder it simply encodes.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from reelrl.cli import output
from reelrl.cli.main import DONE, FAILED, INTERRUPTED, with_dashes
from reelrl.errors import ConfigError, ReelError
from reelrl.storage.files import refuse_overwriting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.content.clip import Clip
    from reelrl.encode.file.job import EncodeJob


def main(argv: Sequence[str] | None = None) -> int:
    """Encode as the command line says; returns the exit status."""
    try:
        arguments = _parser().parse_args(with_dashes(list(sys.argv[1:] if argv is None else argv)))
        _encode(arguments)
    except SystemExit as stop:  # argparse exits by itself; callers of `main` want a number
        return int(stop.code or 0)
    except ReelError as error:
        print("error  " + str(error).replace("\n", "\n       "), file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("stopped  interrupted by Ctrl+C; nothing was written", file=sys.stderr)
        return INTERRUPTED
    return DONE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="reel-encoder",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--input", required=True, metavar="FILE", help=".y4m, .yuv, or any video file")
    add("--input-res", metavar="WxH", help="size of a raw .yuv whose name does not tell it (in_1920x1080_24.yuv)")
    add("--fps", metavar="N", help="frames per second, such as 24 or 30000/1001; else as the file says")
    add("--frames", type=int, default=0, metavar="N", help="code the first N; 0 codes all")
    add("--o", metavar="FILE", help="the stream: .ivf, .mp4, .webm or .mkv")
    add("--csv", metavar="FILE", help="a line per frame: type, layer, QP, bits, PSNR")
    add("--rc-mode", type=int, choices=(0, 1, 2), help="0 quality, 1 bitrate of the whole, 2 constant bitrate")
    add("--bitrate", type=float, metavar="KBPS", help="kbit/s for --rc-mode 1 and 2; with a trainer, its budget")
    add("--crf", type=int, metavar="QP", help="quality for --rc-mode 0 (default 40); in other modes where to start")
    add("--qp", type=int, metavar="QP", help="as --crf, with the encoder's fixed pyramid")
    add("--pass", dest="passes", type=int, choices=(1, 2), help="1 makes the log only, 2 uses it")
    add("--stat-in", metavar="FILE", help="log of a first pass")
    add("--stat-out", metavar="FILE", help="where the log of this pass goes")
    add("--preset", type=int, default=8, help="the encoder's speed preset, 0 to 13 (default 8)")
    add("--structure", choices=("random_access", "low_delay"), help="default random_access; low_delay with --rc-mode 2")
    add("--hierarchical-levels", type=int, metavar="N", help="a mini-GOP holds 2**N frames (default 4; low delay 3)")
    add(
        "--keyint",
        type=int,
        default=161,
        metavar="N",
        help="frames between key frames (default 161); -1: one",
    )
    add("--lp", type=int, default=1, metavar="N", help="threads of the encoder (default 1)")
    add("--rl-dir", metavar="FOLDER", help="where to meet the trainer (default $RL_DIR, else ./rl_io)")
    add("--rl-deadline", type=float, default=30.0, metavar="S", help="seconds an answer may take (default 30)")
    return parser


def _encode(args: argparse.Namespace) -> None:
    from reelrl.encode.handshake import reference_encoder as program
    from reelrl.encode.handshake.pass_log import PassLog

    job = _job(args)
    for path in (args.o, args.csv, args.stat_out):
        refuse_overwriting(path, *job.clip.files, *filter(None, [args.stat_in]))
    log = PassLog.load(args.stat_in, job.clip) if args.stat_in else None
    folder = Path(args.rl_dir or os.environ.get("RL_DIR") or "rl_io")
    if args.passes == 1:
        coded = program.first_pass(job)
    elif folder.is_dir():
        coded = program.by_trainer(job, folder, log, deadline_s=args.rl_deadline, say=_note)
    else:
        coded = program.alone(job, log, two_passes=args.passes == 2)
    if args.stat_out:
        coded.log.save(args.stat_out)
    if args.csv:
        coded.save_csv(args.csv)
    if args.o and args.passes != 1:
        coded.encoded.save(args.o)
    figures = f"{coded.encoded.kbps:.1f} kbit/s", f"PSNR-Y {coded.encoded.psnr_y:.2f} dB"
    output.line("coded", args.o or "", f"{job.clip.frame_count} frames", *figures, coded.how)


def _job(args: argparse.Namespace) -> EncodeJob:
    from reelrl.encode.codecs.settings import EncoderSettings
    from reelrl.encode.file.job import EncodeJob

    _check(args)
    low_delay = args.structure == "low_delay" or (args.structure is None and args.rc_mode == 2)
    settings = EncoderSettings(
        preset=args.preset,
        rate_control="cqp" if args.qp or low_delay else "crf",
        qp=args.qp or args.crf or EncoderSettings.qp,
        structure="low_delay" if low_delay else "random_access",
        hierarchical_levels=args.hierarchical_levels or (3 if low_delay else 4),
        keyint=args.keyint,
        threads=args.lp,
        recon=False,
    )
    constant = args.rc_mode == 2
    return EncodeJob(_clip(args), settings, args.bitrate, constant=constant, start_qp=args.qp or args.crf)


def _check(args: argparse.Namespace) -> None:
    """Refuse what contradicts itself; fill in the mode that the other flags imply."""
    if args.rc_mode is None:
        args.rc_mode = 0 if args.bitrate is None else 1
    if (args.rc_mode == 0) != (args.bitrate is None):
        remedy = "leave --bitrate out, or choose 1 or 2" if args.rc_mode == 0 else "give --bitrate KBPS"
        raise ConfigError(f"--rc-mode {args.rc_mode} with --bitrate {args.bitrate}; {remedy}")
    if args.frames < 0:
        raise ConfigError(f"--frames {args.frames}; give how many to code, 0 for all")
    if args.passes == 1 and not args.stat_out:
        raise ConfigError("--pass 1 without --stat-out; name the file for its log")
    if not (args.o or args.csv or args.stat_out):
        raise ConfigError("nothing to write: give --o, --csv or --stat-out")


def _clip(args: argparse.Namespace) -> Clip:
    from reelrl.content.clip import Clip
    from reelrl.content.sources import parse_rate, parse_size

    size = parse_size("input-res", args.input_res) if args.input_res else None
    clip = Clip.open(args.input, size, parse_rate("fps", args.fps) if args.fps else None)
    return clip.window(0, min(args.frames, clip.frame_count)) if args.frames else clip


def _note(text: str) -> None:
    print(f"note   {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
