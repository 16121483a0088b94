"""What steering SVT-AV1's own cbr is worth on drawn clips: late frames and BD-rates against cbr as it is.

python benchmarks/live_steered_cbr.py                       the drawn clips of development, a buffer of half a second
python benchmarks/live_steered_cbr.py --only brake --clips atari:Pong?frames=150

small   it is told of half the buffer
under   it may fall below its target as far as it likes (undershoot-pct 100)
brake   its target is moved for a frame that the rule's predictor says is too much for the room in the buffer, so that
        cbr takes a QP at which it fits; and back after it. With every new target cbr begins anew: from a rate factor
        of 0.7 the target alone gives the QP, and what its buffer held is forgotten.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from reelrl.content.quality import mean_of_frame_psnr, psnr_of_mean_mse
from reelrl.encode.codecs.session import EncoderSession
from reelrl.encode.codecs.whole_clip import encode_packets
from reelrl.encode.live.bits import RuleBits
from reelrl.encode.live.clips import DEVELOPMENT, open_live
from reelrl.encode.live.coding import LIVE
from reelrl.encode.live.drawn import is_drawn
from reelrl.encode.live.frame_look import FrameLooker
from reelrl.encode.live.link import LiveViewer, Uplink
from reelrl.encode.live.own_cbr import own_cbr
from reelrl.encode.live.qps import QPS
from reelrl.encode.live.structure import LEVELS, SceneWatch, layer_of
from reelrl.report.bd_rate import Point, bd_rate

if TYPE_CHECKING:
    from reelrl.content.clip import Clip
    from reelrl.encode.codecs.packet import Packet
    from reelrl.encode.codecs.settings import EncoderSettings
    from reelrl.encode.live.bits import Curve

BUFFER_S = 0.5
TARGET_QPS = (28, 36, 44, 52)
WAYS = ("small", "under", "brake")
Coded = tuple[float, float, float, int]
"""kbit/s, PSNR-Y, PSNR of the mean error, late frames."""

_MARGIN = 1.2  # spreads of the prediction
_MACROBLOCK_BITS = 0.7 * 1e6 / 512  # of cbr at its first rate factor, times the quantiser's step: so its source


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", nargs="+", default=DEVELOPMENT["screen"], help="others; only drawn ones count")
    parser.add_argument("--only", nargs="+", choices=WAYS, default=WAYS)
    args = parser.parse_args()
    clips = [clip for clip in map(open_live, args.clips) if is_drawn(next(iter(clip)))]
    figures: dict[str, list[tuple[float | None, ...]]] = {way: [] for way in ("cbr", *args.only)}
    for clip in [clip.load() for clip in clips]:
        plain = replace(LIVE.for_clip(clip), picture_qp=False, hierarchical_levels=LEVELS, recon=True)
        rates = [max(1, round(sized(clip, list(encode_packets(clip, replace(plain, qp=q)))))) for q in TARGET_QPS]
        made = {way: [coded(clip, way, kbps) for kbps in rates] for way in figures}
        for way, points in made.items():
            bd = [more_bits(made["cbr"], points, metric) for metric in (1, 2)]
            figures[way].append((sum(point[3] for point in points), *bd))
    for way, rows in figures.items():
        late, *metrics = zip(*rows, strict=True)
        means = [f"{np.mean([each for each in one if each is not None]):+6.1f} %" for one in metrics]
        print(f"{way:6} {sum(late):4} late frames   PSNR-Y {means[0]}   PSNR of the mean error {means[1]}")


def coded(clip: Clip, way: str, kbps: int) -> Coded:
    settings = own_cbr(LIVE.for_clip(clip), LEVELS, kbps, BUFFER_S * (0.5 if way == "small" else 1.0))
    if way == "under":
        settings = replace(settings, options={**settings.options, "undershoot-pct": "100"})
    packets = braked(clip, settings, kbps) if way == "brake" else list(encode_packets(clip, settings))
    errors, pixels = [packet.luma_sse_in_8_bits for packet in packets], clip.width * clip.height
    viewer = LiveViewer(Uplink.constant(kbps), float(clip.fps), BUFFER_S)
    for frame, packet in zip(clip, packets, strict=True):
        viewer.is_sent(8 * packet.size, frame)
    return sized(clip, packets), mean_of_frame_psnr(errors, pixels), psnr_of_mean_mse(errors, pixels), viewer.late


def braked(clip: Clip, settings: EncoderSettings, kbps: int) -> list[Packet]:
    """By cbr, with another target for frames that would be late at the QP that their layer had last."""
    predictor, scene = RuleBits(clip.width * clip.height), SceneWatch(LEVELS)
    looker, level_bits, braking = FrameLooker(clip.width, clip.height), 0.0, False
    last: dict[int, int] = {}  # QP that cbr chose by itself, by layer
    packets: list[Packet] = []
    with EncoderSession(settings) as session:
        for number, frame in enumerate(clip):
            look, layer = looker.look(frame), layer_of(number)
            curve = predictor.predict(look, layer, afresh=scene.afresh(look))
            qp = fitting(curve, last.get(layer), BUFFER_S * 1000 * kbps - level_bits)
            moved = kbps if braking else None
            session.send(frame, kbps=moved if qp is None else target_for(qp, clip))
            braking = qp is not None
            (packet,) = session.receive()
            predictor.learn(packet.qp, 8 * packet.size)
            scene.coded(layer)
            level_bits = max(level_bits + 8 * packet.size - 1000 * kbps / float(clip.fps), 0.0)
            if not braking:
                last[layer] = packet.qp
            packets.append(packet)
    return packets


def fitting(curve: Curve, last: int | None, room_bits: float) -> int | None:
    """A QP at which the frame finds room, if it would not at the last one."""
    taken = 2 ** (curve.lasting + _MARGIN * curve.spread)
    if last is None or float(taken[last - 1]) <= room_bits:
        return None
    return int(QPS[min(int(np.count_nonzero(taken > room_bits)), len(QPS) - 1)])


def target_for(qp: int, clip: Clip) -> float:
    """In kbit/s: that at which cbr, when it begins anew, takes about this QP."""
    macroblocks = -(-clip.width // 16) * -(-clip.height // 16)
    return max(float(clip.fps) * macroblocks * _MACROBLOCK_BITS / 2 ** (qp / 10 + 2.5) / 1000, 1.0)


def more_bits(anchor: list[Coded], own: list[Coded], metric: int) -> float | None:
    """BD-rate in percent; None where the curves give none."""
    before, after = ([Point(each[0], float(each[metric])) for each in points] for points in (anchor, own))
    return bd_rate(before, after).percent


def sized(clip: Clip, packets: list[Packet]) -> float:
    return sum(8 * packet.size for packet in packets) / clip.duration_s / 1000


if __name__ == "__main__":
    main()
