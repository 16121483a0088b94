"""Watch a ladder in a browser: page, segments and decisions from this machine, over a recorded network.

reel ladder film.mkv -o site/                                  encode it first
reel play site/ --controller scalefree                         decisions by a policy, as fast as the machine serves
reel play site/ --controller bola --trace bus.json             over a network that is replayed for every viewer
reel play site/ --controller ppo bola dashjs --traces links/   several to choose from; dashjs is the player's own
reel play site/ --headless --sessions 24 --traces links/ --controller scalefree bola robustmpc dashjs
                                                               real browsers, beside what the simulator says

A controller is a name of `reel evaluate abr`, a run folder, a policy file or "package.module:Class".
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING

from reelrl.cli import headless, options, output

if TYPE_CHECKING:
    import argparse

    from reelrl.stream.play.service import Show


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("site", type=Path, metavar="SITE", help="a folder that `reel ladder` wrote")
    add("--controller", nargs="+", default=["scalefree"], metavar="NAME", help="who decides (default scalefree)")
    add("--trace", metavar="FILE", help="the network of every viewing; without it nothing slows the segments")
    add("--traces", metavar="DIR", help="networks that viewings take in turn")
    add("--latency", type=float, default=0.0, metavar="MS", help="added to the trace's own latency (default 0)")
    add("--buffer", type=float, default=60.0, metavar="S", help="how far ahead the player downloads (default 60)")
    add("--port", type=int, metavar="N", help="default 8765, or a free one where that is taken")
    add("--headless", action="store_true", help="watch in browsers of our own, and compare with the simulator")
    add("--sessions", type=int, default=24, metavar="N", help="viewings of --headless in all (default 24)")
    add("--at-once", type=int, default=2, metavar="N", help="browsers of --headless at a time (default 2)")
    add("--qoe", default="linear", metavar="NAME", help="of --headless, as in `reel evaluate abr` (default linear)")
    add("-o", "--output", metavar="FILE", help="of --headless: all that was measured, as JSON")
    add("--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen at (default 127.0.0.1, this machine)")
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from reelrl.stream.play.server import PlayServer

    show = show_from(args)
    with PlayServer(show, args.port, args.host) as server:
        gc.freeze()  # what is loaded by now stays; to look through it again and again would hold up answers by 0.2 s
        if args.headless:
            return headless.run(args, show, server.url)
        video = show.video
        rates = f"{video.bitrates_kbps[0]:.0f} to {video.bitrates_kbps[-1]:.0f} kbit/s"
        output.line(
            "site", args.site, f"{video.rungs} rungs, {rates}", f"{video.chunks} segments of {video.chunk_s:g} s"
        )
        if args.json:
            output.as_json({"url": server.url, "site": args.site, "controllers": list(show.controllers)})
        output.line("decide", ", ".join(show.controllers))
        output.line("link", ", ".join(trace.name for trace in show.traces[:5]) or "as fast as this machine")
        output.line("open", server.url, "Ctrl+C ends it")
        if len(show.controllers) > 1:
            output.line("all", f"{server.url}page/together.html", "side by side over one network")
        server.wait()
    return 0


def show_from(args: argparse.Namespace) -> Show:
    """What the options ask to serve."""
    from reelrl.errors import ConfigError
    from reelrl.stream.data.packaging import MANIFEST
    from reelrl.stream.data.traces import read_traces
    from reelrl.stream.play.service import PLAYER, Show
    from reelrl.stream.playback import load_bitrate_controller
    from reelrl.stream.simulator.rule import named_rule

    if not (args.site / MANIFEST).is_file():
        raise ConfigError(f"{args.site} holds no {MANIFEST}; make it with: reel ladder FILE -o {args.site}")
    if args.trace and args.traces:
        raise ConfigError("--trace and --traces are both given; choose one")
    source = args.trace or args.traces
    return Show(
        folder=args.site,
        controllers={name: None if name == PLAYER else load_bitrate_controller(name) for name in args.controller},
        traces=tuple(read_traces(source)) if source else (),
        rule=named_rule(None, queue_delay_ms=args.latency),
        buffer_cap_s=args.buffer,
    )
