"""What SVT-AV1's cbr gets by other means than QPs: a clip coded by cbr, and again with exactly the QPs that it chose.

python benchmarks/live_same_qps.py                                     three clips, each at one rate
python benchmarks/live_same_qps.py --clips atari:Pong --kbps 60

In cbr the encoder refers to other pictures and refreshes blocks that stand still, at QPs of their own: no choice of
QPs picture by picture has that. The third line adds a refresh by superblock maps: a quarter of each base picture, one
after the other, as much finer as maps go.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from reelrl.content.quality import mean_of_frame_psnr, psnr_from_sse, psnr_of_mean_mse
from reelrl.encode.codecs.session import EncoderSession
from reelrl.encode.codecs.settings import MAX_OFFSET
from reelrl.encode.codecs.whole_clip import encode_packets
from reelrl.encode.live.clips import open_live
from reelrl.encode.live.coding import LIVE
from reelrl.encode.live.structure import LEVELS, layer_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
        qps = [packet.qp for packet in own]
        tell("its QPs", clip, coded(clip, base, qps))
        tell("and maps", clip, coded(clip, base, qps, refresh=True))


def coded(clip: Clip, settings: EncoderSettings, qps: list[int], *, refresh: bool = False) -> list[Packet]:
    packets = []
    with EncoderSession(settings) as session:
        for number, (frame, qp) in enumerate(zip(clip, qps, strict=True)):
            base = refresh and number and layer_of(number) == 0
            session.send(frame, qp=qp, offsets=band(settings.superblocks, number // 2**LEVELS) if base else None)
            packets += session.receive()
    return packets


def band(superblocks: int, turn: int) -> NDArray[np.int32]:
    """A map that makes the next quarter of the superblocks finer."""
    return np.where(np.arange(superblocks) * 4 // superblocks == turn % 4, -MAX_OFFSET, 0).astype(np.int32)


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
