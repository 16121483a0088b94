"""What shorter GOPs are worth in libaom's two passes: BD-rates of constant quality with GOPs of 8 to 24 frames.

python benchmarks/frameqp_gops.py carphone_qcif 'generated:street?size=176x144'

Against libaom's own choice, up to 32 frames. Below zero is a saving.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from reelrl.content.quality import mean_of_frame_psnr, psnr_of_mean_mse
from reelrl.content.sources import open_clip
from reelrl.encode.codecs.aom.first_pass import TWO_PASS, two_pass_statistics
from reelrl.encode.codecs.aom.two_pass import TwoPassSession
from reelrl.report.bd_rate import Point, bd_rate

if TYPE_CHECKING:
    from reelrl.content.clip import Clip

FRAMES, QPS, LENGTHS = 100, (28, 36, 44, 52), (8, 12, 16, 24)


def points(clip: Clip, length: int | None) -> tuple[list[Point], list[Point]]:
    """Bytes and quality at each QP, by both means of PSNR."""
    settings = replace(TWO_PASS.for_clip(clip), psnr=True)
    if length is not None:
        settings = replace(settings, options={**settings.options, "max-gf-interval": str(length)})
    statistics, pixels = two_pass_statistics(clip, settings), clip.width * clip.height
    by_frames, by_error = [], []
    for qp in QPS:
        with TwoPassSession(clip, replace(settings, qp=qp), statistics, steered=False) as session:
            session.request()
        size, errors = sum(p.size for p in session.packets), [p.luma_sse_in_8_bits for p in session.packets]
        by_frames.append(Point(size, mean_of_frame_psnr(errors, pixels)))
        by_error.append(Point(size, psnr_of_mean_mse(errors, pixels)))
    return by_frames, by_error


def main() -> None:
    for name in sys.argv[1:] or ["generated:street?size=176x144"]:
        whole = open_clip(name)
        clip = whole.window(0, min(FRAMES, whole.frame_count)).load()
        own = points(clip, None)
        for length in LENGTHS:
            found = [bd_rate(theirs, ours).percent for theirs, ours in zip(own, points(clip, length), strict=True)]
            shown = "  ".join("-" if each is None else f"{each:+6.2f} %" for each in found)
            print(f"{name:40}  {length:2} frames  {shown}", flush=True)


if __name__ == "__main__":
    main()
