"""The sections of `reel demo` on streaming: a film of what each viewer saw, figures, and how to watch it live."""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING

from reelrl.report.charts import Axis, Line, line_chart, minus, steps
from reelrl.report.page import code, columns, figure, section, table, video
from reelrl.stream.demo.measure import BUFFER_S, OTHER_LINKS, QOE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.content.pictures import Picture
    from reelrl.report.page import Html
    from reelrl.stream.data.ladders import Ladder
    from reelrl.stream.data.traces import Trace
    from reelrl.stream.demo.measure import Watching

TITLE = "One video, one bad network"
LEAD = (
    "The same video over the same link, which breaks down once. Each viewer has another controller, which picks the "
    "bitrate of every segment from what it has seen of the link so far."
)


def sections(
    watchings: Sequence[Watching],
    ladder: Ladder,
    trace: Trace,
    film: str,
    poster: Picture,
    *,
    live: str,
    site: str,
) -> list[Html]:
    """`live` is what plays it in browsers, `site` what packages the ladder."""
    names = [each.playback.controller for each in watchings]
    height, width = poster.shape[:2]
    rows = [
        [
            each.playback.controller,
            minus(f"{each.playback.qoe:.3f}"),
            f"{sum(each.playback.timeline['bitrate_kbps']) / len(each.rungs):.0f}",
            f"{each.playback.rebuffer_s:.1f}",
            f"{each.playback.switches}",
            minus(f"{mean(other.qoe for other in each.others):.3f}"),
            f"{mean(other.rebuffer_s for other in each.others):.1f}",
        ]
        for each in watchings
    ]
    return [
        section(
            TITLE,
            f"{LEAD} Left to right: {', '.join(names)}. Bars are bitrates, red is where the picture stood still.",
            video(film, "what each viewer saw, on one clock", width, height, poster),
            columns(*(_chart(each, trace) for each in watchings)),
            table(
                ["controller", "QoE", "kbit/s", "stalled, s", "switches", "other links: QoE", "stalled, s"],
                rows,
                f"By the simulator; QoE is {QOE}, the buffer {BUFFER_S:g} s. One link proves little: to the right the "
                f"means over {OTHER_LINKS} others of its kind. reel evaluate abr takes hundreds.",
            ),
            code("reel demo --only stream --again"),
        ),
        _ladder(ladder, site),
        section(
            "Watch it live",
            "Real players, side by side, over the same link. Open the second address that it prints.",
            code(live),
        ),
    ]


def _ladder(ladder: Ladder, site: str) -> Html:
    """What was packaged: rungs with the sizes of the files that players download."""
    video = ladder.video()
    kbytes = video.sizes_bytes / 1000
    rows = [
        [
            str(rung + 1),
            f"{kbps:.0f}",
            f"{kbytes[:, rung].mean():.0f}",
            f"{kbytes[:, rung].min():.0f} to {kbytes[:, rung].max():.0f}",
            f"{ladder.quality['psnr'][:, rung].mean():.1f}",
        ]
        for rung, kbps in enumerate(ladder.bitrates_kbps)
    ]
    return section(
        "The ladder that they climb",
        f"{video.chunks} segments of {video.chunk_s:g} s at {video.rungs} rates, packaged as DASH and HLS. A segment "
        "is as large as what is in it, and controllers see the true sizes.",
        table(["rung", "kbit/s", "segment, kB", "smallest to largest", "PSNR-Y, dB"], rows),
        code(site),
    )


def _chart(watching: Watching, trace: Trace) -> Html:
    name = watching.playback.controller
    rates = [
        (at_s, kbps / 1000.0)
        for at_s, kbps in zip(watching.shown_s, watching.playback.timeline["bitrate_kbps"], strict=True)
    ]
    rates.append((watching.ended_s, rates[-1][1]))
    link = [
        (float(at_s), float(kbps) / 1000.0)
        for at_s, kbps in zip(trace.edges_s - trace.edges_s[0], trace.kbps, strict=False)
        if at_s - trace.edges_s[0] < watching.ended_s
    ]
    chart = line_chart(
        [Line("link", steps(link), "quiet", "none"), Line(name, steps(rates), "one", "none")],
        x=Axis("s"),
        y=Axis("Mbit/s", zero=True),
        title=f"Bitrate by {name} and what the link carried, over time",
        bands=watching.stalls,
    )
    return figure(chart, f"{name}: stalled {watching.playback.rebuffer_s:.1f} s")
