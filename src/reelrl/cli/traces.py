"""Look at network traces, make new ones, convert them.

reel traces PATH...                                    one line per trace: rate, variation, outages
reel traces PATH... --figure traces.html               and a page with charts of the set
reel traces make mobile --count 20 -o traces/          generated: markov, mobile, outages
reel traces convert trace.txt -o trace.json            json, cooked or mahimahi, by --format
reel traces convert log.csv -o links/                  a log of several links: one file each

Read are our JSON, two columns (time_s Mbit/s), Mahimahi's packet times, iperf3's JSON, and the CSV logs of Puffer, the
FCC, Lumos5G, 5GTracker (Starlink) and University College Cork (4G, 5G).
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from reelrl.cli import options, output
from reelrl.errors import ConfigError
from reelrl.storage.files import refuse_overwriting
from reelrl.storage.regular_files import own_path

if TYPE_CHECKING:
    import argparse

    from reelrl.stream.data.trace_stats import TraceStats

KINDS = ("markov", "mobile", "outages")
FORMATS = ("json", "cooked", "mahimahi")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="+", metavar="PATH", help="traces or folders; or: make KIND, convert PATH...")
    parser.add_argument("-o", "--output", metavar="PATH", help="folder (make, logs) or file (convert) to write")
    parser.add_argument("--count", type=int, default=1, metavar="N", help="how many to make (default 1)")
    parser.add_argument("--duration", type=float, default=320.0, metavar="S", help="seconds of each (default 320)")
    parser.add_argument("--format", choices=FORMATS, default="json", help="format to write (default json)")
    parser.add_argument("--figure", metavar="FILE", help="draw the set: a page (.html)")
    options.add_seed(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    if args.words[0] == "make":
        return _make(args)
    if args.words[0] == "convert":
        return _convert(args)
    return _describe(args)


def _describe(args: argparse.Namespace) -> int:
    from reelrl.stream.data.trace_stats import describe
    from reelrl.stream.data.traces import read_traces

    refuse_overwriting(args.figure, *args.words)
    if args.figure and Path(args.figure).suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"--figure {args.figure}: charts are written as a page; give it a name that ends in .html")
    traces = read_traces(args.words)
    stats = [describe(trace) for trace in traces]
    if args.figure:
        from reelrl.stream.page import write_trace_page

        write_trace_page(Path(args.figure), traces)
    if args.json:
        output.as_json([asdict(each) for each in stats])
        return 0
    print(
        f"{'trace':<36} {'slots':>6} {'s':>7} {'kbit/s':>8} {'dev':>5} {'p5':>7} {'p95':>8} {'lag 1':>6} {'outages':>8}"
    )
    for each in stats:
        print(_line(each))
    output.next_command(f"reel evaluate abr --traces {args.words[0]}")
    return 0


def _line(stats: TraceStats) -> str:
    outages = f"{stats.outages} ({stats.longest_outage_s:.0f} s)" if stats.outages else "-"
    return (
        f"{stats.name[-36:]:<36} {stats.slots:>6} {stats.duration_s:>7.0f} {stats.mean_kbps:>8.0f} "
        f"{stats.deviation:>5.2f} "
        f"{stats.p5_kbps:>7.0f} {stats.p95_kbps:>8.0f} {stats.lag1:>6.2f} {outages:>8}"
    )


def _make(args: argparse.Namespace) -> int:
    from reelrl.seeding import stream
    from reelrl.storage.files import writable_folder
    from reelrl.stream.data import generated_traces as generate
    from reelrl.stream.data.traces import write_trace

    kind = args.words[1] if len(args.words) == 2 else ""
    if kind not in KINDS or args.count < 1 or not args.output:
        raise ConfigError(
            f"make {kind or '?'}: name one of {', '.join(KINDS)}, a --count of 1 or more and a folder with -o"
        )
    folder = writable_folder(args.output)
    for number in range(args.count):
        rng = stream(args.seed, "traces", kind, number)
        if kind == "markov":
            trace = generate.markov_trace(rng, duration_s=args.duration)
        else:
            trace = generate.mobile_trace(rng, duration_s=args.duration)
        if kind == "outages":
            trace = generate.with_outages(trace, rng, count=2)
        name = f"{kind}-{number:04d}{'.json' if args.format == 'json' else ''}"
        write_trace(trace, own_path(folder / name), args.format)
    _wrote(args, folder, f"{args.count} {kind} traces", f"seed {args.seed}")
    output.next_command(f"reel traces {folder}")
    return 0


def _convert(args: argparse.Namespace) -> int:
    from reelrl.storage.files import writable_folder
    from reelrl.stream.data.traces import read_traces, write_trace

    if len(args.words) != 2 or not args.output:
        raise ConfigError("convert takes one file and what to write: reel traces convert trace.txt -o trace.json")
    refuse_overwriting(args.output, args.words[1])
    traces = read_traces(args.words[1])
    if len(traces) == 1 and not Path(args.output).is_dir():
        write_trace(traces[0], Path(args.output), args.format)
        _wrote(args, args.output, args.format)
        return 0
    folder = writable_folder(args.output)
    for trace in traces:
        write_trace(trace, own_path(folder / f"{trace.name}{'.json' if args.format == 'json' else ''}"), args.format)
    _wrote(args, folder, f"{len(traces)} traces", args.format)
    output.next_command(f"reel traces {folder}")
    return 0


def _wrote(args: argparse.Namespace, where: str | Path, *what: str) -> None:
    output.line("wrote", where, *what)
    if args.json:
        output.as_json({"wrote": where, "format": args.format})
