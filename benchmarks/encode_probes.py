"""What a cheaper probe costs in accuracy: clips coded to the rates of crf, planned by probes of several presets.

    python benchmarks/encode_probes.py CLIP ... [--preset 8] [--probes 8 10 13] [--qps 28 36 44 52] [--frames 97]

probe     preset that the probe is coded with; the encode's own is what a probe was before
CPU       of the probe, against a crf pass by the encode's preset
bits      what the encode takes of the probe's bits when it replays the probe's QPs: mean, and how far clips lie apart
off       distance from the target rate, %: mean, largest; the probe is made at the QP of the target, so that this is
          the probe's own share of the error
BD-rate   against crf, PSNR-Y, mean over clips
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from reelrl.content.sources import open_clip
from reelrl.encode.codecs.session import EncoderSession
from reelrl.encode.minigop.controllers.rules import CrfReplay, RateModel
from reelrl.encode.minigop.run import run_controller
from reelrl.encode.minigop.source.in_process import RANDOM_ACCESS
from reelrl.encode.minigop.source.plan import probed_plan, spans_of
from reelrl.encode.minigop.source.preparation import planned_source
from reelrl.encode.minigop.source.probe import probe
from reelrl.report.bd_rate import Point, bd_rate

if TYPE_CHECKING:
    from reelrl.content.clip import Clip
    from reelrl.encode.codecs.settings import EncoderSettings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clips", nargs="+")
    parser.add_argument("--preset", type=int, default=8)
    parser.add_argument("--probes", type=int, nargs="+", default=[8, 10, 13])
    parser.add_argument("--qps", type=int, nargs="+", default=[28, 36, 44, 52])
    parser.add_argument("--frames", type=int, default=97)
    args = parser.parse_args()
    rows: dict[int, list[tuple[float, float, float]]] = defaultdict(list)
    savings: dict[int, list[float]] = defaultdict(list)
    for name in args.clips:
        clip = open_clip(name)
        clip = clip.window(0, min(args.frames, clip.frame_count)).load()
        settings = replace(RANDOM_ACCESS, preset=args.preset, keyint=161, recon=False).for_clip(clip)
        own: list[Point] = []
        points: dict[int, list[Point]] = defaultdict(list)
        for qp in args.qps:
            bits, psnr, cpu_s = _alone(clip, replace(settings, qp=qp))
            own.append(Point(bits / clip.duration_s / 1000, psnr))
            for preset in args.probes:
                row, point = _planned(clip, replace(settings, qp=qp), preset, bits, cpu_s)
                rows[preset].append(row)
                points[preset].append(point)
                print(f"{name}  qp {qp}  probe {preset}  bits {row[1]:.3f}  off {row[2]:+.2f} %", flush=True)
        for preset, found in points.items():
            if (saved := bd_rate(own, found).percent) is not None:
                savings[preset].append(saved)
    for preset, found_rows in rows.items():
        cpu, ratio, off = zip(*found_rows, strict=True)
        octaves = [math.log2(value) for value in ratio]
        print(
            f"probe {preset:2}  CPU {statistics.mean(cpu):.2f}  bits {2 ** statistics.mean(octaves):.3f} "
            f"+- {100 * (2 ** statistics.pstdev(octaves) - 1):.1f} %  off {statistics.mean(map(abs, off)):.2f} % "
            f"(largest {max(map(abs, off)):.1f})  BD-rate {statistics.mean(savings[preset]):+.2f} %"
        )


def _alone(clip: Clip, settings: EncoderSettings) -> tuple[int, float, float]:
    """Bits, PSNR-Y and CPU seconds of the encoder alone."""
    started = time.process_time()
    with EncoderSession(settings) as session:
        packets = list(session.encode(clip))
    psnr = sum(packet.psnr[0] for packet in packets) / len(packets)
    return sum(8 * packet.size for packet in packets), psnr, time.process_time() - started


def _planned(
    clip: Clip, settings: EncoderSettings, preset: int, bits: int, cpu_s: float
) -> tuple[tuple[float, float, float], Point]:
    """CPU of the probe, bits of a replay over the probe's, rate error in percent; and where the encode came out."""
    probed = probe(clip, replace(settings, preset=preset))
    spans = spans_of(clip.frame_count, settings)
    plan = probed_plan(spans, probed, settings.qp, [{}] * len(spans))
    kbps = bits / clip.duration_s / 1000
    replayed = run_controller(planned_source(clip, settings, plan, kbps=kbps), CrfReplay())
    run = run_controller(planned_source(clip, settings, plan, kbps=kbps), RateModel())
    row = probed.cpu_s / cpu_s, replayed.bits / plan.bits, 100 * run.rate_error
    return row, Point(run.kbps, run.psnr_y)


if __name__ == "__main__":
    main()
