"""What SVT-AV1's cbr gets by other means than QPs: a clip coded by cbr, and again with exactly the QPs that it chose.

python benchmarks/live_same_qps.py                                     three clips, each at one rate
python benchmarks/live_same_qps.py --clips atari:Pong --kbps 60

In cbr the encoder refers to other pictures and refreshes blocks that stand still, at QPs of their own: no choice of
QPs picture by picture has that.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from reelrl.content.quality import mean_of_frame_psnr, psnr_from_sse, psnr_of_mean_mse
from reelrl.encode.codecs.session import EncoderSession
from reelrl.encode.codecs.whole_clip import encode_packets
from reelrl.encode.live.clips import open_live
from reelrl.encode.live.coding import LIVE
from reelrl.encode.live.structure import LEVELS

if TYPE_CHECKING:
    from reelrl.content.clip import Clip
    from reelrl.encode.codecs.packet import Packet
    from reelrl.encode.codecs.settings import EncoderSettings

CLIPS = (
    ("flickering(atari:Gravitar?frames=150)", 60),
    ("atari:SpaceInvaders?frames=150", 92),
    ("carphone_qcif", 90),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", nargs="+", help="others, at --kbps")
    parser.add_argument("--kbps", type=int, default=90)
    args = parser.parse_args()
    for name, kbps in [(name, args.kbps) for name in args.clips] if args.clips else CLIPS:
        clip = open_live(name).load()
        base = replace(LIVE.for_clip(clip), hierarchical_levels=LEVELS, recon=True)
        own = list(encode_packets(clip, replace(base, picture_qp=False, rate_control="cbr", target_kbps=kbps)))
        print(name)
        tell("cbr", clip, own)
        tell("its QPs", clip, coded(clip, base, [packet.qp for packet in own]))


def coded(clip: Clip, settings: EncoderSettings, qps: list[int]) -> list[Packet]:
    packets = []
    with EncoderSession(settings) as session:
        for frame, qp in zip(clip, qps, strict=True):
            session.send(frame, qp=qp)
            packets += session.receive()
    return packets


def tell(who: str, clip: Clip, packets: list[Packet]) -> None:
    errors, pixels = [packet.luma_sse_in_8_bits for packet in packets], clip.width * clip.height
    kbps = sum(8 * packet.size for packet in packets) / clip.duration_s / 1000
    halves = [np.mean([psnr_from_sse(error, pixels) for error in errors[part::2]]) for part in (0, 1)]
    print(
        f"  {who:8} {kbps:6.1f} kbit/s   PSNR-Y {mean_of_frame_psnr(errors, pixels):.2f} dB (even pictures "
        f"{halves[0]:.1f}, odd {halves[1]:.1f})   of the mean error {psnr_of_mean_mse(errors, pixels):.2f} dB"
    )


if __name__ == "__main__":
    main()
