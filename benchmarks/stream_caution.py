"""What caution and a reserve are worth to `scalefree`, on links to select by: mean QoE and worst tenth on each kind.

python benchmarks/stream_caution.py                            the settings of the results page; needs REELRL_DATA
python benchmarks/stream_caution.py "scalefree(3)" robustmpc   these
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np

from reelrl.seeding import stream
from reelrl.stream.data import generated_traces as generate
from reelrl.stream.data import pools
from reelrl.stream.data.ladders import read_ladder
from reelrl.stream.playback import load_bitrate_controller, play

if TYPE_CHECKING:
    from reelrl.stream.data.traces import Trace

SETTINGS = (*(f"scalefree({c})" for c in ("0", "1", "1.5", "2", "3", "1,30", "1,40")), "lowest")
MOBILE, OUTAGES, TWO_OUTAGES = 300, 400, 600


def links() -> dict[str, list[Trace]]:
    """None of them taught a policy; test traces are not among them."""
    rng = stream(78, "abr", "caution")
    recorded = [trace for trace in pools.recorded_traces("validation") if trace.kbps.mean() < 6000.0]
    return {
        "mobile": [pools._mobile(rng) for _ in range(MOBILE)],
        "recorded": recorded,
        "outages": [pools._broken(pools._mobile(rng), rng) for _ in range(OUTAGES)],
        "two outages": [_two_outages(stream(1001, "abr", "two outages", number)) for number in range(TWO_OUTAGES)],
    }


def _two_outages(rng: np.random.Generator) -> Trace:
    """As `reel traces make outages` makes them."""
    return generate.with_outages(generate.mobile_trace(rng, duration_s=pools.DURATION_S), rng, count=2)


def main() -> None:
    ladder = read_ladder(pools.data_folder("videos/envivio") or "nominal")
    sets = {name: traces for name, traces in links().items() if traces}
    print("links  " + "   ".join(f"{name} {len(traces)}" for name, traces in sets.items()), flush=True)
    for name in sys.argv[1:] or SETTINGS:
        controller, shown = load_bitrate_controller(name), []
        for kind, traces in sets.items():
            qoe = [play(controller, trace, ladder).qoe for trace in traces]
            shown.append(f"{kind} {np.mean(qoe):.3f} p10 {np.percentile(qoe, 10):.3f}")
        print(f"{name:<16} {'   '.join(shown)}", flush=True)


if __name__ == "__main__":
    main()
