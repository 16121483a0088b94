"""The part of `reel demo` on superblocks: both encoders code a clip at several QPs, then each with a map of offsets
that favours what moves, at a base QP that brings it back to the size without a map.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from reelrl.content import open_clip
from reelrl.encode.demo import measure as demo
from reelrl.encode.demo import page
from reelrl.report.demo_part import CLIP, FRAMES, DemoPart
from reelrl.runs.progress import Progress
from reelrl.storage.regular_files import own_path

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reelrl.content import Clip
    from reelrl.encode.demo.measure import Motion, Trial
    from reelrl.report.demo_part import DemoOptions


def make(folder: Path, options: DemoOptions) -> DemoPart:
    clip = open_clip(options.clip)
    clip = clip.window(0, min(options.frames, clip.frame_count)).load()
    motion, trials = _measure(clip)
    sections = page.sections(clip, motion, trials, _command(options))
    files = []
    for trial in trials:
        for way, encoded in (("plain", trial.plain), ("map", trial.mapped)):
            files.append(f"{trial.backend}-{way}.mp4")
            encoded.coded.save(own_path(folder / files[-1]))
    record = {"trials": [trial.record(motion.moving) for trial in trials]}
    shown = ["clip", clip.name, f"{clip.width}x{clip.height}", f"{clip.frame_count} frames", f"{clip.fps} fps"]
    return DemoPart(page.TITLE, page.lead(clip), sections, record, [shown, *_lines(motion, trials)], files)


def _measure(clip: Clip) -> tuple[Motion, list[Trial]]:
    motion = demo.find_motion(clip)
    total = len(demo.NAMES) * demo.ENCODES * clip.frame_count
    with Progress("encode", total, unit="frames") as progress:
        trials = [
            demo.measure(backend, clip, motion, lambda name, frames: progress.update(frames, encoder=name))
            for backend in demo.NAMES
        ]
    return motion, trials


def _lines(motion: Motion, trials: Sequence[Trial]) -> list[list[str]]:
    lines: list[list[str]] = []
    for trial in trials:
        ends = (f"{coded.kbps:.0f} kbps {coded.psnr_y:.1f} dB" for coded in (trial.curve[-1], trial.curve[0]))
        lines.append(["curve", f"{trial.name} {trial.version}", " to ".join(ends)])
    for trial in trials:
        change = trial.change(motion.moving)
        lines.append(
            [
                "map",
                trial.name,
                f"moving {change.moving:+.2f} dB",
                f"elsewhere {change.elsewhere:+.2f} dB",
                f"bytes {trial.growth(trial.mapped):+.1f} %",
                f"zero map {trial.growth(trial.zero):+.1f} %",
            ]
        )
    return lines


def _command(options: DemoOptions) -> str:
    """What to type for the same part."""
    words = ["reel", "demo", "--only", "encode"]
    words += ["--clip", options.clip] if options.clip != CLIP else []
    words += ["--frames", str(options.frames)] if options.frames != FRAMES else []
    return shlex.join([*words, "--again"])
