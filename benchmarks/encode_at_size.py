"""`reel encode --bitrate` at 720p and 1080p: rate, PSNR by both means and CPU, against PyAV's one-pass VBR.

    python benchmarks/encode_at_size.py                           generated clips, and the files of REELRL_DATA
    python benchmarks/encode_at_size.py --files a.mkv b.mkv --presets 8 4 --qps 32 44 --frames 120

Target rates are what crf takes at `--qps`. Each encode is a command in a process of its own, with a cache that starts
empty; CPU is that of the process and all it started. Rows go into the JSON file as they are made: started again, it
makes only those that are missing.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _command_cost import plain_encode, reel_encode

from reelrl.content.clip import Clip
from reelrl.content.quality import mean_of_frame_psnr, psnr_of_mean_mse
from reelrl.content.sources import open_clip
from reelrl.content.write.video import write_video
from reelrl.storage.files import write_atomic

GENERATED = (
    "generated:street?size=1280x720&seed=61",
    "generated:water?size=1280x720&seed=62",
    "generated:pan?size=1920x1080&seed=63",
    "generated:talk?size=1920x1080&seed=64",
)
RECORDED = ("VID_1280x720_cavlc_temporal_direct.264", "VID_1920x1080_cavlc_temporal_direct.264")


@dataclass(frozen=True)
class Point:
    """An encode to make: a source, some frames of it, a preset, and the QP whose rate is the target."""

    source: str
    frames: int
    preset: int
    qp: int

    @property
    def clip(self) -> str:
        return Path(self.source).name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", nargs="+", help="sources (default: four generated ones, and two of REELRL_DATA)")
    parser.add_argument("--presets", type=int, nargs="+", default=[8, 4])
    parser.add_argument("--qps", type=int, nargs="+", default=[32, 44])
    parser.add_argument("--frames", type=int, default=120, help="of each source, if it has so many")
    parser.add_argument("--options", nargs="+", default=[], help="more of `reel encode`, without their dashes")
    parser.add_argument("--json", default="encode-at-size.json", help="where the rows go")
    args = parser.parse_args()
    rows: list[dict[str, Any]] = json.loads(Path(args.json).read_text()) if Path(args.json).exists() else []
    there = {(row["clip"], row["asked_frames"], row["preset"], row["crf"]) for row in rows}
    options = [f"--{word}" if not word.isdecimal() else word for word in args.options]
    for preset in args.presets:
        for source in args.files or default_sources():
            for qp in args.qps:
                point = Point(source, args.frames, preset, qp)
                if (point.clip, point.frames, point.preset, point.qp) in there:
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    rows.append(compared(point, Path(folder), options))
                print(line(rows[-1]), flush=True)
                write_atomic(args.json, json.dumps(rows, indent=1))
    print(summary(rows))


def default_sources() -> list[str]:
    data = os.environ.get("REELRL_DATA")
    return [*GENERATED, *(str(Path(data) / "files" / name) for name in RECORDED if data)]


def compared(point: Point, folder: Path, options: list[str]) -> dict[str, Any]:
    """Ours and PyAV's VBR at the rate that crf takes."""
    clip = open_clip(point.source + (f"&frames={point.frames}" if point.source.startswith("generated:") else ""))
    source = folder / "in.y4m"  # a file that both read in the same way
    write_video(source, clip.window(0, min(point.frames, clip.frame_count)))
    clip = Clip.open(source)
    kbps = plain_encode(folder, source, {"svtav1-params": f"rc=0:crf={point.qp}:lp=1"}, 0, point.preset).printed["kbps"]
    ours = reel_encode(folder, source, folder / "ours.ivf", "--preset", str(point.preset), *options, kbps=kbps)
    vbr = plain_encode(folder, source, {"svtav1-params": "rc=1:lp=1"}, kbps, point.preset)
    row: dict[str, Any] = {
        "clip": point.clip, "width": clip.width, "height": clip.height, "asked_frames": point.frames,
        "frames": clip.frame_count, "preset": point.preset, "crf": point.qp, "kbps": kbps,
        "parts": ours.printed["parts"], "passes": ours.printed["passes"], "load": os.getloadavg()[0],
    }  # fmt: skip
    for who, run, file in (("ours", ours, folder / "ours.ivf"), ("vbr", vbr, Path(f"{source}.ivf"))):
        row[f"{who}_ms"] = 1000 * run.cpu_s / clip.frame_count
        row[f"{who}_error"] = run.printed["kbps"] / kbps - 1
        row[f"{who}_psnr_y"], row[f"{who}_psnr_y_of_mean"] = psnrs(clip, Clip.open(file))
    row["cpu_ratio"] = row["ours_ms"] / row["vbr_ms"]
    return row


def psnrs(clip: Clip, coded: Clip) -> tuple[float, float]:
    """Luma, in dB: the mean of the frames' PSNRs, and the PSNR of their mean error."""
    pixels = clip.width * clip.height
    errors = [int(np.square(a.y.astype(np.int64) - b.y).sum()) for a, b in zip(clip, coded, strict=True)]
    return mean_of_frame_psnr(errors, pixels), psnr_of_mean_mse(errors, pixels)


def line(row: dict[str, Any]) -> str:
    return (
        f"{row['clip'][:44]:44} {row['width']}x{row['height']} {row['frames']} frames  preset {row['preset']}  "
        f"{row['kbps']:7.0f} kbit/s  CPU {row['ours_ms']:6.1f} / {row['vbr_ms']:6.1f} ms = {row['cpu_ratio']:4.2f}  "
        f"rate {100 * row['ours_error']:+6.2f} / {100 * row['vbr_error']:+6.2f} %  PSNR-Y {row['ours_psnr_y']:.2f} / "
        f"{row['vbr_psnr_y']:.2f}, of the mean {row['ours_psnr_y_of_mean']:.2f} / {row['vbr_psnr_y_of_mean']:.2f} dB  "
        f"passes {row['passes']}  load {row['load']:.1f}"
    )


def summary(rows: list[dict[str, Any]]) -> str:
    lines = []
    for size, preset in sorted({(row["height"], row["preset"]) for row in rows}):
        chosen = [row for row in rows if (row["height"], row["preset"]) == (size, preset)]

        def mean(name: str, rows: list[dict[str, Any]] = chosen) -> float:
            return float(sum(abs(row[name]) for row in rows) / len(rows))

        lines.append(
            f"{size} lines, preset {preset}: {len(chosen)} encodes of {len({row['clip'] for row in chosen})} clips, "
            f"off by {100 * mean('ours_error'):.2f} % (VBR {100 * mean('vbr_error'):.2f} %), "
            f"CPU {mean('cpu_ratio'):.2f} times (most {max(row['cpu_ratio'] for row in chosen):.2f})"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
