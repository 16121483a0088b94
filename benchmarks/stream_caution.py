"""What caution and thrift are worth to `scalefree`, on links to select by: mean QoE and worst tenth on each kind.

`short buffer`: a player who is at most 20 s ahead, chunks of 2 s, two minutes, QoE `scaled`, our own rule, two outages.

python benchmarks/stream_caution.py                            the settings of the results page; needs REELRL_DATA
python benchmarks/stream_caution.py "scalefree(3)" robustmpc   these
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.seeding import stream
from reelrl.stream.data import generated_traces as generate
from reelrl.stream.data import pools
from reelrl.stream.data.ladders import PENSIEVE_KBPS, Ladder, read_ladder
from reelrl.stream.playback import load_bitrate_controller, play

if TYPE_CHECKING:
    from reelrl.stream.data.traces import Trace

FEARS = ("0", "1", "1.5", "2", "3", "1,0.3", "1,1", "1,3", "1,3,0")  # caution, thrift, ease_s
SETTINGS = (*(f"scalefree({fears})" for fears in FEARS), "bola(18)", "robustmpc", "lowest")
MOBILE, OUTAGES, TWO_OUTAGES, SHORT_BUFFER = 300, 400, 600, 300
SHORT_S = 20.0
SHORT: dict[str, Any] = {"preset": None, "qoe": "scaled", "buffer_s": SHORT_S}


def links() -> dict[str, list[Trace]]:
    """None of them taught a policy; test traces are not among them."""
    rng = stream(78, "abr", "caution")
    recorded = [trace for trace in pools.recorded_traces("validation") if trace.kbps.mean() < 6000.0]
    return {
        "mobile": [pools._mobile(rng) for _ in range(MOBILE)],
        "recorded": recorded,
        "outages": [pools._broken(pools._mobile(rng), rng) for _ in range(OUTAGES)],
        "two outages": [_two_outages(stream(1001, "abr", "two outages", number)) for number in range(TWO_OUTAGES)],
        "short buffer": [_two_outages(stream(1002, "abr", "two outages", number)) for number in range(SHORT_BUFFER)],
    }


def _two_outages(rng: np.random.Generator) -> Trace:
    """As `reel traces make outages` makes them."""
    return generate.with_outages(generate.mobile_trace(rng, duration_s=pools.DURATION_S), rng, count=2)


def _short_ladder() -> Ladder:
    return read_ladder({"bitrates_kbps": list(PENSIEVE_KBPS), "chunk_s": 2.0, "chunks": 60})


def main() -> None:
    ladder = read_ladder(pools.data_folder("videos/envivio") or "nominal")
    sets = {name: traces for name, traces in links().items() if traces}
    print("links  " + "   ".join(f"{name} {len(traces)}" for name, traces in sets.items()), flush=True)
    for name in sys.argv[1:] or SETTINGS:
        controller, shown = load_bitrate_controller(name), []
        for kind, traces in sets.items():
            video, how = (_short_ladder(), SHORT) if kind == "short buffer" else (ladder, {})
            qoe = [play(controller, trace, video, **how).qoe for trace in traces]
            shown.append(f"{kind} {np.mean(qoe):.3f} p10 {np.percentile(qoe, 10):.3f}")
        print(f"{name:<16} {'   '.join(shown)}", flush=True)


if __name__ == "__main__":
    main()
