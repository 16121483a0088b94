"""Live coding over links whose rate changes: what a viewer gets.

A link is scaled so that on average it carries what the clip takes at a fixed QP. Everybody is told its rate of the
moment, cbr too, and nothing of what it will be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.content.quality import mean_of_frame_psnr, psnr_of_mean_mse
from reelrl.encode.codecs.session import EncoderSession
from reelrl.encode.codecs.whole_clip import encode_packets
from reelrl.encode.live.clips import open_live
from reelrl.encode.live.coding import LIVE, LivePlan, encode_live
from reelrl.encode.live.evaluate import CBR
from reelrl.encode.live.link import LiveViewer, Uplink
from reelrl.encode.live.own_cbr import own_cbr
from reelrl.encode.live.structure import LEVELS
from reelrl.report.verdicts import aligned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.content.clip import Clip

_QP = 40  # whose rate links are scaled to
_MOST = 4.0  # times the mean: what is asked of a link at most
_LEAST_KBPS = 2.0


@dataclass(frozen=True)
class LiveViewing:
    """One clip over one link by one contestant.

    late, dropped   frames
    seen, seen_mean luma PSNR of what is on the screen when each frame is due: mean of frames, and of the mean error
    delay_p95_s     of the frames that were sent
    """

    contestant: str
    clip: str
    link: str
    buffer_s: float
    frames: int
    late: int
    dropped: int
    seen: float
    seen_mean: float
    delay_p95_s: float

    def row(self) -> dict[str, Any]:
        return dict(vars(self))


def watch(task: tuple[str, str, Uplink, Sequence[str], float]) -> list[LiveViewing]:
    """A clip (by name) over a link (with its name) by everybody, with one buffer."""
    name, link_name, link, contestants, buffer_s = task
    clip = open_live(name).load()
    own = replace(LIVE, picture_qp=False, hierarchical_levels=LEVELS, qp=_QP, recon=False)
    kbps = sum(8 * packet.size for packet in encode_packets(clip, own)) / clip.duration_s / 1000
    link = scaled(link, kbps, clip.duration_s)
    most = _MOST * kbps
    found = []
    for contestant in contestants:
        if contestant == CBR:
            viewer, dropped = _cbr(clip, link, buffer_s, most), 0
        else:
            who, *options = contestant.split("+")
            chosen: dict[str, Any] = dict.fromkeys(options, True)
            plan = LivePlan(most, buffer_s, link, watch=True, bits=who, **chosen)
            stream = encode_live(clip, plan)
            viewer, dropped = stream.viewer, stream.dropped
        found.append(_watched(contestant, clip, link_name, viewer, dropped))
    return found


def scaled(link: Uplink, kbps: float, duration_s: float) -> Uplink:
    """The link with another mean rate over its first seconds."""
    times = np.linspace(0, duration_s, 400, endpoint=False)
    mean = float(np.mean([link.kbps_at(float(time_s)) for time_s in times]))
    return Uplink(link.edges_s, tuple(max(rate * kbps / max(mean, 1e-9), 0.01) for rate in link.kbps))


def table(watched: Sequence[LiveViewing]) -> str:
    """Means over clips and links, by contestant and buffer."""
    rows = [
        ["buffer", "contestant", "viewings", "late", "dropped", "PSNR-Y seen", "of mean error", "delay, 95 % below"]
    ]
    for buffer_s in dict.fromkeys(each.buffer_s for each in watched):
        for name in dict.fromkeys(each.contestant for each in watched):
            own = [each for each in watched if (each.contestant, each.buffer_s) == (name, buffer_s)]
            frames = sum(each.frames for each in own)
            rows.append(
                [
                    f"{buffer_s:g} s",
                    name,
                    str(len(own)),
                    f"{sum(each.late for each in own) / frames:.1%}",
                    f"{sum(each.dropped for each in own) / frames:.1%}",
                    f"{np.mean([each.seen for each in own]):.2f} dB",
                    f"{np.mean([each.seen_mean for each in own]):.2f} dB",
                    f"{1000 * np.mean([each.delay_p95_s for each in own]):.0f} ms",
                ]
            )
    return aligned(rows)


def _cbr(clip: Clip, link: Uplink, buffer_s: float, most: float) -> LiveViewer:
    """SVT-AV1's own cbr, told a new target whenever the link's rate changes."""
    fps, target = float(clip.fps), _target(link, 0.0, most)
    settings = own_cbr(LIVE.for_clip(clip), LEVELS, target, buffer_s)
    viewer = LiveViewer(link, fps, buffer_s)
    with EncoderSession(settings) as session:
        for number, frame in enumerate(clip):
            wanted = _target(link, number / fps, most)
            # Only when it changes: an event with every picture lets it fall far below its target.
            session.send(frame, kbps=wanted if wanted != target else None)
            target = wanted
            (packet,) = session.receive()
            viewer.is_sent(8 * packet.size, frame, packet.recon)
    return viewer


def _target(link: Uplink, time_s: float, most: float) -> float:
    return float(round(min(max(link.kbps_at(time_s), _LEAST_KBPS), most)))


def _watched(contestant: str, clip: Clip, link_name: str, viewer: LiveViewer, dropped: int) -> LiveViewing:
    pixels = clip.width * clip.height
    delays = [delay for delay in viewer.delays_s if delay is not None]
    return LiveViewing(
        contestant=contestant,
        clip=clip.name,
        link=link_name,
        buffer_s=viewer.buffer_s,
        frames=clip.frame_count,
        late=viewer.late,
        dropped=dropped,
        seen=mean_of_frame_psnr(viewer.sse_y, pixels),
        seen_mean=psnr_of_mean_mse(viewer.sse_y, pixels),
        delay_p95_s=float(np.quantile(delays, 0.95)),
    )
