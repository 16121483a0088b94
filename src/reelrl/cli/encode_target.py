"""`reel encode --target vmaf=93`: a quality in every scene instead of a bitrate, and `--size 700MB`."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelrl.cli import output
from reelrl.cli.finished_parts import finished_parts
from reelrl.errors import ConfigError
from reelrl.runs.progress import duration

if TYPE_CHECKING:
    import argparse

    from reelrl.content.clip import Clip
    from reelrl.content.read.carried import Carried
    from reelrl.encode.codecs.settings import EncoderSettings
    from reelrl.encode.target.whole import TargetEncode

_UNITS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


def add_arguments(parser: argparse.ArgumentParser, goal: Any) -> None:
    """`goal` is the group of which one is to be given."""
    goal.add_argument("--target", metavar="METRIC=VALUE", help="quality of every scene: vmaf=93, or vmaf=93,p5")
    goal.add_argument("--size", metavar="SIZE", help="bytes of the whole video stream, as 700MB or 1.4GiB")
    add = parser.add_argument
    add("--max-kbps", type=float, metavar="KBPS", help="with --target: no scene is given more")
    add("--verify", action="store_true", help="with --target: decode the result and score every frame")
    add(
        "--tries",
        type=int,
        metavar="N",
        help="with --target: encodes of a scene at most (default 3; 1: none is redone)",
    )
    add("--model", metavar="RUN", help="with --target: of `reel train target` (default: the one that ships)")


def kbps_of_size(text: str, duration_s: float) -> float:
    """The bitrate at which so long a video has this size."""
    match = re.fullmatch(r"\s*([0-9.]+)\s*([kmg]i?)?b?\s*", text.lower())
    try:
        size_bytes = float(match[1]) * _UNITS[match[2] or ""] if match else 0.0
    except ValueError:
        size_bytes = 0.0
    if not size_bytes > 0:
        raise ConfigError(f"--size {text!r}; write it like 700MB, 1.4GB or 650MiB")
    return size_bytes * 8 / duration_s / 1000


def check_arguments(args: argparse.Namespace) -> None:
    """Refuse before the first pass what says nothing, or can't be had."""
    if args.target is None:
        for name in ("max_kbps", "verify", "tries", "model"):
            if getattr(args, name):
                raise ConfigError(f"--{name.replace('_', '-')} goes with --target; add one, as in --target vmaf=93")
        return
    if args.structure != "random_access":
        raise ConfigError(f"--target with --structure {args.structure}: scenes are searched in random access only")
    if args.tries is not None and args.tries < 1:
        raise ConfigError(f"--tries {args.tries}; a scene is encoded at least once")
    if args.max_kbps is not None and not args.max_kbps > 0:
        raise ConfigError(f"--max-kbps {args.max_kbps:g}; give kbit/s above zero")
    for name in ("policy", "compare", "export_qpfile", "export_zones", "export_scenes"):
        if getattr(args, name):
            raise ConfigError(f"--{name.replace('_', '-')} goes with a bitrate; --target chooses a CRF for each scene")


def encode(clip: Clip, settings: EncoderSettings, carried: Carried, args: argparse.Namespace) -> dict[str, Any]:
    """Search, encode, write; and what there is to say about it."""
    from reelrl.content.quality import vmaf_program
    from reelrl.content.write.video import write_bitstream
    from reelrl.encode.target.goal import QualityTarget
    from reelrl.encode.target.model_file import find_models
    from reelrl.encode.target.search import DEFAULT_RULES
    from reelrl.encode.target.whole import TargetJob, encode_to_target, verify

    target = QualityTarget.parse(args.target)
    if target.metric == "vmaf":
        vmaf_program()  # complain now, not at the first probe
    models, _ = find_models(args.model)
    rules = replace(DEFAULT_RULES, encodes=args.tries or DEFAULT_RULES.encodes)
    job = TargetJob(clip, replace(settings, recon=False, psnr=False), target, args.max_kbps, args.workers or 0, rules)
    with finished_parts(args) as folder:
        encoded = encode_to_target(job, models, folder)
        left_out = write_bitstream(args.output, encoded.packets(), clip.width, clip.height, clip.fps, carried)
    got = verify(clip, Path(args.output), encoded.parts, target) if args.verify else None
    return {
        "output": args.output,
        "target": str(target),
        "frames": clip.frame_count,
        "kbps": encoded.kbps,
        "size_bytes": encoded.size_bytes,
        "probes": encoded.probes,
        "search_cpu_s": sum(part.search_cpu_s for part in encoded.met),
        "resumed": encoded.found,
        "expected": encoded.expected,
        "got": got[0] if got else None,
        "left_out": left_out,
        "parts": _part_facts(encoded, got[1] if got else None),
    }


def _part_facts(encoded: TargetEncode, got: list[float] | None) -> list[dict[str, Any]]:
    """What was predicted, probed and got, part by part."""
    facts = []
    for number, (part, met) in enumerate(zip(encoded.parts, encoded.met, strict=True)):
        decision = met.decision
        facts.append(
            {
                "first_frame": part.first,
                "frames": part.frames,
                "predicted": {"crf": decision.predicted.crf, "doubt": decision.predicted.doubt},
                "probes": [{"crf": crf, "figure": figure} for crf, figure in decision.probes],
                "crf": decision.chosen.crf,
                "expected": decision.chosen.expected,
                "doubt": decision.chosen.doubt,
                "capped_by": decision.capped_by or None,
                "checks": [{"crf": crf, "figure": figure} for crf, figure in decision.checks],
                "size_bytes": met.coded.size_bytes,
                "got": got[number] if got else None,
            }
        )
    return facts


def show(facts: dict[str, Any]) -> None:
    """The summary for people."""
    parts = facts["parts"]
    for part in parts if len(parts) <= _SHOWN else ():
        output.line("scene", f"{part['first_frame']} to {part['first_frame'] + part['frames'] - 1}", *_words(part))
    again = sum(part["checks"] != [] and part["checks"][0]["crf"] != part["crf"] for part in parts)
    probes = f"{facts['probes']} probes" + (f", {again} coded again" if again else "")
    output.line("target", facts["target"], f"{len(parts)} scenes", probes, duration(facts["seconds"]))
    figure = f"expected {facts['expected']:.4g}" if facts["got"] is None else f"got {facts['got']:.4g}"
    rate = f"{facts['kbps']:.1f} kbit/s"
    output.line("coded", facts["output"], f"{facts['frames']} frames", rate, figure)
    for what in facts["left_out"]:
        output.line("lost", what)
    for limit in sorted({part["capped_by"] for part in parts if part["capped_by"]}):
        count = sum(part["capped_by"] == limit for part in parts)
        output.line("note", f"{count} of {len(parts)} scenes do not meet the target: {_LIMITS[limit]}")
    if facts["got"] is None:
        output.next_command(f"reel encode ... --target {facts['target']} --verify scores every frame of the result")


_SHOWN = 20  # scenes; of more, --json has all
_LIMITS = {
    "kbps": "held below --max-kbps",
    "lowest CRF": "the lowest CRF is not good enough",
    "highest CRF": "the highest CRF is still better",
}


def _words(part: dict[str, Any]) -> list[str]:
    probed = ", ".join(f"{probe['crf']:g}: {probe['figure']:.4g}" for probe in part["probes"])
    checked = "".join(f", CRF {check['crf']:g} got {check['figure']:.4g}" for check in part["checks"])
    words = [
        f"predicted CRF {part['predicted']['crf']:g}",
        (f"probed {probed}" if probed else "not probed") + checked,
        f"CRF {part['crf']:g}",
        f"expected {part['expected']:.4g} +- {part['doubt']:.2g}",
    ]
    return words if part["got"] is None else [*words, f"got {part['got']:.4g}"]
