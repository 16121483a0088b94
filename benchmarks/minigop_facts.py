"""Facts about SVT-AV1 that mini-GOP control rests on, measured again: what its QP pyramid is worth, what a step takes.

python benchmarks/minigop_facts.py [--clips CLIP ...] [--frames 65]

flat            bits at equal PSNR-Y when all pictures get one QP, against the encoder's own QPs sent picture by picture
per step        octaves of bits that a QP step on a whole pyramid takes: mean over four QPs, the largest, by samples
moving, afresh  low delay: octaves of bits per pixel and level of energy at QP 40, of what prediction leaves in frames,
                and of the key frame; in brackets what a QP step takes from them
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from typing import TYPE_CHECKING

from reelrl.content.sources import open_clip
from reelrl.encode.codecs.whole_clip import encode_packets
from reelrl.encode.features import analyse, clip_features
from reelrl.encode.minigop.controllers.bits import LEAST_INTRA, STILL
from reelrl.encode.minigop.controllers.rules import CrfReplay
from reelrl.encode.minigop.record import by_number
from reelrl.encode.minigop.run import run_controller
from reelrl.encode.minigop.source.in_process import LOW_DELAY
from reelrl.encode.minigop.source.preparation import Preparation
from reelrl.encode.minigop.source.probe import probe
from reelrl.encode.minigop.source.starting_qp import SampleEncode, sample_encode
from reelrl.report.bd_rate import Point, bd_rate

if TYPE_CHECKING:
    from reelrl.content.clip import Clip
    from reelrl.encode.minigop.run import MiniGopRun

CLIPS = tuple(
    f"generated:{style}?size=256x144" for style in ("street", "pan", "water", "talk", "screen", "cuts", "noise")
)
QPS = (28, 36, 44, 52)
LOW_DELAY_QPS = (32, 48)
STEP = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", nargs="+", default=CLIPS)
    parser.add_argument("--frames", type=int, default=65)
    args = parser.parse_args()
    head = ("flat, % bits", "octaves per step, mean", "largest", "sampled", "moving", "afresh")
    print(f"{'clip':36}  {'  '.join(head)}")
    for name in args.clips:
        clip = open_clip(name)
        prepared = Preparation(clip.window(0, min(args.frames, clip.frame_count)).load())
        flat = bd_rate([_replayed(prepared, qp) for qp in QPS], [_flat(prepared, qp) for qp in QPS]).percent
        steps = [_octaves_per_step(prepared, qp) for qp in QPS]
        shown = "-" if flat is None else f"{flat:+.1f}"
        sampled = sample_encode(prepared.clip, prepared.settings)
        assert isinstance(sampled, SampleEncode)  # in random access
        octaves = f"{sum(steps) / len(steps):22.3f}  {max(steps):7.3f}  {sampled.octaves_per_qp:6.3f}"
        print(f"{name:36}  {shown:>12}  {octaves}  {_costs(prepared.clip)}", flush=True)


def _costs(clip: Clip) -> str:
    analysis = analyse(clip_features(clip), clip.width, clip.height)
    levels = (float((analysis.inter_energy[1:] + STILL).sum()), float(analysis.intra_energy[0] + LEAST_INTRA))
    bits = [probe(clip, replace(LOW_DELAY.for_clip(clip), qp=qp)).bits for qp in LOW_DELAY_QPS]
    shown = []
    for energy, part in zip(levels, (slice(1, None), slice(1)), strict=True):
        fine, coarse = (math.log2(int(each[part].sum()) / (clip.width * clip.height * energy)) for each in bits)
        shown.append(f"{(fine + coarse) / 2:+.1f} ({(fine - coarse) / (LOW_DELAY_QPS[1] - LOW_DELAY_QPS[0]):.3f})")
    return "  ".join(shown)


def _replayed(prepared: Preparation, qp: int) -> Point:
    run = _run(prepared, qp, 0)
    return Point(run.kbps, run.psnr_y)


def _flat(prepared: Preparation, qp: int) -> Point:
    clip: Clip = prepared.clip
    settings = replace(prepared.settings, qp=qp, picture_qp=True, psnr=True)
    packets = list(encode_packets(clip, settings, by_number(settings, [qp] * clip.frame_count)))
    kbps = sum(8 * packet.size for packet in packets) / clip.duration_s / 1000
    return Point(kbps, sum(packet.psnr[0] for packet in packets) / len(packets))


def _octaves_per_step(prepared: Preparation, qp: int) -> float:
    finer, coarser = (_run(prepared, qp, delta).bits for delta in (-STEP, STEP))
    return math.log2(finer / coarser) / (2 * STEP)


def _run(prepared: Preparation, qp: int, delta: float) -> MiniGopRun:
    return run_controller(prepared.source(start_qp=qp, headroom=0), CrfReplay(delta))


if __name__ == "__main__":
    main()
