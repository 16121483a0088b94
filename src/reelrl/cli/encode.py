"""Encode a video at a bitrate, or at a quality, with a policy that decides the QP of each mini-GOP.

reel encode in.y4m -o out.mkv --bitrate 500                              one probe, one pass, the bitrate met
reel encode in.y4m -o out.mkv --bitrate 500 --policy runs/0007           by a trained agent
reel encode in.y4m -o out.mkv --bitrate 500 --compare                    and the encoder's own VBR beside it
reel encode in.y4m -o out.ivf --bitrate 500 --structure low_delay        no probe, within a second's buffer
reel encode in.y4m -o out.mkv --crf 40                                   the bits of CRF 40, placed by the policy
reel encode long.mkv -o out.mkv --bitrate 900 --workers 8 --resume       go on with an encode that was stopped
reel encode in.y4m -o out.mkv --target vmaf=93                           a quality in every scene, with hardly a probe
reel encode in.y4m -o out.mkv --size 700MB                               a size
reel encode in.y4m -o out.mkv --bitrate 500 --backend aom                libaom in two passes, frame by frame
reel encode in.y4m -o out.mkv --bitrate 500 --live --buffer 0.5          frame by frame, nothing looked at ahead
reel encode in.y4m -o out.mkv --bitrate 900 --live --trace link.json     the rate follows a network

A policy is a controller's name, a run folder, a policy file or "package.module:Class". Output: .mkv .mp4 .webm .ivf.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelrl.cli import encode_aom, encode_live, encode_target, options, output
from reelrl.cli.finished_parts import finished_parts
from reelrl.errors import ConfigError
from reelrl.runs.progress import Progress, duration
from reelrl.storage.files import refuse_overwriting

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from reelrl.content.clip import Clip
    from reelrl.content.frame import Frame
    from reelrl.content.read.carried import Carried
    from reelrl.encode.file.job import EncodeJob
    from reelrl.encode.minigop.source.in_process import InProcessSource

FAIR_PERCENT = 2.0  # of bytes; beyond, a difference in PSNR says little
_LONG_S = 20.0  # a video that others code in parts


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("clip", help="a file, a name from `reel clips`, or a recipe such as generated:street")
    add("-o", "--output", required=True, metavar="FILE", help="where the stream goes: .mkv, .mp4, .webm or .ivf")
    goal = parser.add_mutually_exclusive_group(required=True)
    goal.add_argument("--bitrate", type=float, metavar="KBPS", help="kbit/s to meet")
    goal.add_argument("--crf", type=float, metavar="QP", help="spend what the encoder alone spends at this quality")
    encode_target.add_arguments(parser, goal)
    encode_aom.add_arguments(parser)
    encode_live.add_arguments(parser)
    add("--policy", metavar="WHAT", help="who decides (default rate-model; leaky-bucket in low delay)")
    add("--structure", choices=("random_access", "low_delay"), default="random_access", help="default random_access")
    add("--preset", type=int, default=8, help="the encoder's speed preset, 0 to 13 (default 8)")
    add("--keyint", type=int, default=161, metavar="N", help="frames between key frames (default 161)")
    add(
        "--workers",
        type=int,
        metavar="N",
        help="processes that code parts of the file side by side (default 0: one per core)",
    )
    options.add_cluster(parser)
    add("--resume", action="store_true", help="take over the parts that a stopped encode has finished")
    add(
        "--threads", type=int, default=1, metavar="N", help="of the encoder; more than 1 codes in one piece (default 1)"
    )
    add("--depth", type=int, choices=(8, 10), help="bits of a sample (default: the source's)")
    add(
        "--convert-420",
        action="store_true",
        help="make 4:2:0 of a source in 4:2:2 or 4:4:4, which is refused otherwise",
    )
    add("--frames", type=int, metavar="N", help="only the first N frames")
    add("--video-only", action="store_true", help="leave out audio, subtitles, chapters, attachments and tags")
    add("--psnr", action="store_true", help="also measure PSNR, for 5 to 8 %% more CPU (--compare and one piece do)")
    add("--compare", action="store_true", help="also encode with the encoder's own rate control, and say who won")
    add("--export-qpfile", metavar="FILE", help="also write the QP of each picture, for SVT-AV1's own program")
    add("--export-zones", metavar="FILE", help="also write the decisions as zones for Av1an, a CRF for each scene")
    add("--export-scenes", metavar="FILE", help="the same as Av1an's scene file (JSON)")
    options.add_seed(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from reelrl.encode.minigop.controllers.rules import DEFAULTS

    begin_s = time.monotonic()
    _check_output(Path(args.output))
    encode_target.check_arguments(args)
    encode_aom.check_arguments(args)
    encode_live.check_arguments(args)
    job, watch, carried = _job(args)
    # Before the first pass: a clip that is read and written at once would be lost.
    for path in (args.output, args.export_qpfile, args.export_zones, args.export_scenes):
        refuse_overwriting(path, *job.clip.files)
    if args.target is not None:
        found = encode_target.encode(watch.unwatched, job.settings, carried, args)
        found["seconds"] = time.monotonic() - begin_s
        output.as_json(found) if args.json else encode_target.show(found)
        return 0
    if encode_aom.is_chosen(args):
        return _by_libaom(job, args, watch, carried, begin_s)
    if args.live:
        with watch.phase("encode"):
            found = encode_live.encode(job.clip, job.settings, carried, job.kbps or 0.0, args)
        found["seconds"] = time.monotonic() - begin_s
        output.as_json(found) if args.json else encode_live.show(found)
        return 0
    policy = args.policy or DEFAULTS[args.structure]
    encode = _by_parts if _takes_parts(policy, args, job.clip) else _in_one_piece
    facts: dict[str, Any] = {
        "output": args.output,
        "policy": policy,
        "frames": job.clip.frame_count,
        "depth": job.clip.depth,
    }
    facts |= encode(job, policy, args, watch, carried)
    facts["seconds"] = time.monotonic() - begin_s
    if args.compare:
        # At the rate that was the target, not the one that was spent: both are then off by their own error.
        facts["compare"] = _compare(job, facts["target_kbps"], watch)
    output.as_json(facts) if args.json else _print(facts)
    return 0


def _by_libaom(job: EncodeJob, args: argparse.Namespace, watch: _ReadProgress, carried: Carried, begin_s: float) -> int:
    settings = encode_aom.two_pass_settings(job.clip, args, job.settings.options)
    kbps = job.kbps or 0.0  # `check_arguments` saw to it that there is one
    facts: dict[str, Any] = {"output": args.output, "frames": job.clip.frame_count, "depth": job.clip.depth}
    facts |= encode_aom.encode(job.clip, settings, kbps, carried, args, watch.phase)
    facts["seconds"] = time.monotonic() - begin_s
    if args.compare:
        facts["compare"] = encode_aom.compare(job.clip, settings, kbps, watch.phase)
    output.as_json(facts) if args.json else _print(facts, decided="frames")
    return 0


def _takes_parts(policy: str, args: argparse.Namespace, clip: Clip) -> bool:
    """Whether the clip may be cut into parts; where it may not, a line says why."""
    from reelrl.encode.parts.whole import plans_by_probe

    whole = {
        "low delay": args.structure != "random_access",
        f"--threads {args.threads}": args.threads != 1,
        "an export": args.export_qpfile or args.export_zones or args.export_scenes,
        f"--policy {policy}": not plans_by_probe(policy),
    }
    why = next((name for name, found in whole.items() if found), None)
    if why is None:
        return True
    if args.workers is not None or args.resume:
        raise ConfigError(f"{why} needs the file in one piece; leave --workers and --resume out")
    if clip.duration_s > _LONG_S:
        output.note("note", f"{why} needs the file in one piece: one core codes it")
    return False


def _by_parts(
    job: EncodeJob, policy: str, args: argparse.Namespace, watch: _ReadProgress, carried: Carried
) -> dict[str, Any]:
    from reelrl.content.write.video import write_bitstream
    from reelrl.encode.parts.whole import PartsJob, encode_parts

    clip = watch.unwatched  # worker processes read it for themselves
    settings = replace(job.settings, recon=False, psnr=args.psnr or args.compare)
    with finished_parts(args) as folder:
        encoded = encode_parts(PartsJob(clip, settings, job.kbps, policy, args.seed, args.workers or 0), folder)
        left_out = write_bitstream(args.output, encoded.packets(), clip.width, clip.height, clip.fps, carried)
    return {
        "passes": encoded.passes,
        "parts": len(encoded.parts),
        "resumed": encoded.found,
        "target_kbps": encoded.target_kbps,
        **_figures(encoded, encoded.target_kbps),
        "deltas": encoded.deltas,
        "left_out": left_out,
    }


def _in_one_piece(
    job: EncodeJob, policy: str, args: argparse.Namespace, watch: _ReadProgress, carried: Carried
) -> dict[str, Any]:
    from reelrl.encode.codecs.whole_clip import Encoded

    source, done = job.steered(policy, args.seed, watch.phase)
    _export(source, args)
    encoded = Encoded(job.clip, job.settings, done.packets)
    left_out = encoded.save(args.output, carried)
    return {
        "passes": done.episode.passes + 1,
        "parts": 1,
        "resumed": 0,
        "target_kbps": done.episode.kbps,
        **_figures(encoded, done.episode.kbps),
        "deltas": list(done.deltas),
        "left_out": left_out,
    }


class _ReadProgress:
    """Shows how many frames of a clip have been read, pass by pass.

    Reading is what all passes have in common, also those that are made deep inside.
    """

    def __init__(self, clip: Clip) -> None:
        self.unwatched = clip
        self.clip = replace(clip, start_reading=self._read)
        self._frames = clip.frames
        self._progress: Progress | None = None

    def phase(self, label: str, passes: int = 1) -> Progress:
        self._progress = Progress(label, passes * self.clip.frame_count, unit="frames")
        return self._progress

    def _read(self, start: int) -> Iterator[Frame]:
        for frame in self._frames(start):
            if self._progress is not None:
                self._progress.update()
            yield frame


def _check_output(path: Path) -> None:
    """Refuse before the work what could not be written after it."""
    from reelrl.content.write.video import CONTAINERS
    from reelrl.errors import ContentError
    from reelrl.names import did_you_mean

    if path.suffix.lower() not in {".ivf", *CONTAINERS}:
        raise ConfigError(f"{path}: unknown kind of file{did_you_mean(path.suffix, ['.ivf', *CONTAINERS])}")
    if not path.absolute().parent.is_dir():
        raise ContentError(f"cannot write {path}: there is no folder {path.parent}; make it, or choose another")


def _job(args: argparse.Namespace) -> tuple[EncodeJob, _ReadProgress, Carried]:
    from reelrl.content.read.carried import carried_by
    from reelrl.content.sources import open_clip
    from reelrl.encode.file.colour import colour_options
    from reelrl.encode.file.job import EncodeJob
    from reelrl.encode.minigop.source.in_process import LOW_DELAY, RANDOM_ACCESS

    if args.bitrate is not None and not 0 < args.bitrate < math.inf:
        raise ConfigError(f"--bitrate {args.bitrate:g}; give kbit/s above zero")
    clip = open_clip(args.clip, convert_420=args.convert_420)
    clip = clip.at_depth(args.depth or clip.depth)
    if args.frames:
        clip = clip.window(0, min(args.frames, clip.frame_count))
    carried = carried_by(clip, video_only=args.video_only)
    if carried.timing is not None:
        clip = replace(clip, fps=carried.timing.rate(clip.fps))  # of the first frames, where the rate varies
    watch = _ReadProgress(clip)
    low_delay = args.structure == "low_delay"
    # Structure and hierarchical levels are those that policies were trained and judged in.
    settings = replace(
        LOW_DELAY if low_delay else RANDOM_ACCESS,
        preset=args.preset,
        keyint=args.keyint,
        threads=args.threads,
        options=colour_options(carried.presentation),
    )
    if args.crf is not None:
        qp, quarters = _quality(args.crf)
        settings = replace(settings, qp=qp, crf_quarters=quarters)
    kbps = args.bitrate if args.size is None else encode_target.kbps_of_size(args.size, clip.duration_s)
    return EncodeJob(watch.clip, settings.for_clip(clip), kbps, constant=low_delay), watch, carried


def _quality(crf: float) -> tuple[int, int]:
    """QP and quarters of a CRF."""
    if not (1 <= crf <= 63 and (4 * crf).is_integer()):
        raise ConfigError(f"--crf {crf:g}; give 1 to 63, in quarter steps where the encoder has them")
    return int(crf), round(4 * crf) % 4


def _export(source: InProcessSource, args: argparse.Namespace) -> None:
    from reelrl.encode.file.export import EXPORTS, Decisions, export

    for kind in EXPORTS:
        if path := getattr(args, f"export_{kind}"):
            export(Decisions.of(source), kind, Path(path))


def _compare(job: EncodeJob, kbps: float, watch: _ReadProgress) -> dict[str, Any]:
    """The encoder's own rate control at the same bitrate, or its own crf."""
    with watch.phase("compare"):
        own = job.alone()
    return {"mode": own.settings.rate_control, "passes": 1, **_figures(own, kbps)}


def _figures(encoded: Any, target_kbps: float) -> dict[str, Any]:
    return {
        "kbps": encoded.kbps,
        "rate_error": encoded.kbps / target_kbps - 1,
        "psnr_y": encoded.psnr_y,
        "size_bytes": encoded.size_bytes,
    }


def _print(facts: dict[str, Any], decided: str = "mini-GOPs") -> None:
    passes = "one pass" if facts["passes"] == 1 else f"{facts['passes']} passes"
    parts = f"{facts['parts']} parts" + (f", {facts['resumed']} from before" if facts["resumed"] else "")
    output.line(
        "policy", facts["policy"], passes, parts, f"{len(facts['deltas'])} {decided}", duration(facts["seconds"])
    )
    pictures = f"{facts['frames']} frames" + (" of 10 bits" if facts["depth"] == 10 else "")
    output.line("coded", facts["output"], pictures, *_shown(facts))
    for what in facts["left_out"]:
        output.line("lost", what)
    own = facts.get("compare")
    if own is None:
        return
    alone = "one pass" if own["passes"] == 1 else f"{own['passes']} passes"
    output.line("alone", f"{own['mode']}, {alone}", f"{facts['frames']} frames", *_shown(own))
    bytes_more = 100 * (facts["size_bytes"] / own["size_bytes"] - 1)
    output.line("differ", "", f"{facts['psnr_y'] - own['psnr_y']:+.2f} dB", f"{bytes_more:+.1f} % bytes")
    if abs(bytes_more) > FAIR_PERCENT:
        output.line("note", "sizes differ too much to compare PSNR; `reel evaluate minigop` compares by BD-rate")


def _shown(figures: dict[str, Any]) -> list[str]:
    error, psnr = 100 * figures["rate_error"], figures["psnr_y"]
    shown = [f"{figures['kbps']:.1f} kbit/s", f"{error:+.1f} % of the target"]
    return shown if psnr is None else [*shown, f"PSNR-Y {psnr:.2f} dB"]
