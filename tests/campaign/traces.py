"""Traces in five formats and ladders in three: described, played by an environment and by controllers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.stream import ABREnv, load_bitrate_controller, load_trace, read_ladder, read_trace
from reelrl.stream.playback import play
from tests.campaign.mutations import mutated_bytes, mutated_json, mutated_tree, replace_by_something_else
from tests.campaign.trial import command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from random import Random

    from tests.campaign.trial import Feed

_RATES = (300, 750, 1200, 1850, 2850, 4300)

_CONTROLLERS = ("bba", "bola", "bola-e", "dashjs", "hyb", "l2a", "rate", "mpc", "robustmpc", "fugu", "comyco", "ppo")


def make_sources(folder: Path) -> None:
    kbps = [1500 + 700 * ((7 * slot) % 5) for slot in range(30)]
    slots = [{"duration_ms": 1000, "bandwidth_kbps": rate, "latency_ms": 20.0} for rate in kbps]
    (folder / "trace.json").write_text(json.dumps(slots))
    (folder / "trace.cooked").write_text("".join(f"{s}.5\t{rate / 1000}\n" for s, rate in enumerate(kbps)))
    (folder / "trace.mahimahi").write_text("".join(f"{5 * packet}\n" for packet in range(400)))
    rows = [f"2024-05-01 12:00:{slot:02},{rate / 1000},20\n" for slot, rate in enumerate(kbps)]
    (folder / "trace.csv").write_text("time,throughput,speed\n" + "".join(rows))
    seconds = [{"sum": {"seconds": 1.0, "bits_per_second": 1000.0 * rate}} for rate in kbps]
    (folder / "trace-iperf.json").write_text(json.dumps({"intervals": seconds}))
    sizes = [[rate * 500 + 37 * chunk for rate in _RATES] for chunk in range(8)]
    ladder = {"bitrates_kbps": _RATES, "chunk_s": 4.0, "sizes_bytes": sizes, "vmaf": [[40, 50, 60, 70, 80, 90]] * 8}
    (folder / "ladder.json").write_text(json.dumps(ladder))
    movie = {"segment_duration_ms": 4000, "bitrates_kbps": _RATES}
    (folder / "movie.json").write_text(
        json.dumps(movie | {"segment_sizes_bits": [[8 * n for n in row] for row in sizes]})
    )
    (folder / "sizes").mkdir()
    for rung, rate in enumerate(_RATES):
        (folder / "sizes" / f"video_size_{rung}").write_text("".join(f"{rate * 500 + chunk}\n" for chunk in range(9)))


def break_one(sources: Path, folder: Path, outside: Path, chance: Random) -> Iterator[Feed]:
    trace: Any = sources / "trace.json"
    ladder: Any = sources / "ladder.json"
    broken = _copied(sources, folder, chance)
    if chance.random() < 0.05:
        replace_by_something_else(next(broken.iterdir()) if broken.is_dir() else broken, outside, chance)
    if broken.name.startswith("trace"):
        trace = broken
        yield "read_trace", lambda: read_trace(trace, check_units=chance.random() < 0.5)
        yield "load_trace", lambda: load_trace(folder)
        yield command("traces", broken, *(["--json"] if chance.random() < 0.5 else []))
        if chance.random() < 0.2:
            words = ("-o", folder / "converted", "--format", chance.choice(["json", "cooked", "mahimahi"]))
            yield command("traces", "convert", broken, *words)
    else:
        ladder = broken
        yield "read_ladder", lambda: read_ladder(ladder)
    qoe = chance.choice(["linear", "linear", "log", "hd", "vmaf"])
    yield "environment", lambda: _step(trace, ladder, qoe, chance)
    name = chance.choice(_CONTROLLERS)
    yield f"controller {name}", lambda: _control(trace, ladder, name)
    if chance.random() < 0.1:
        document = mutated_tree(json.loads((sources / "trace.json").read_text()), chance)
        yield "parsed slots", lambda: _step(document, None, "linear", chance)


def _copied(sources: Path, folder: Path, chance: Random) -> Path:
    source = chance.choice(sorted(sources.iterdir()))
    target = folder / source.name
    if source.is_dir():
        target.mkdir()
        for each in source.iterdir():
            (target / each.name).write_bytes(each.read_bytes())
        hit = chance.choice(sorted(target.iterdir()))
        hit.write_bytes(mutated_bytes(hit.read_bytes(), chance))
    else:
        breaker: Callable[[str, Random], bytes] = mutated_json if source.suffix == ".json" else _broken_text
        target.write_bytes(breaker(source.read_text(), chance))
    return target


def _broken_text(text: str, chance: Random) -> bytes:
    return mutated_bytes(text.encode(), chance)


def _step(trace: Any, ladder: Any, qoe: str, chance: Random) -> None:
    env = ABREnv(trace, ladder, qoe=qoe, state="wide")
    observation, _ = env.reset(seed=0)
    for _ in range(50):
        if not (np.isfinite(observation).all() and env.observation_space.contains(observation)):
            raise AssertionError(f"an observation outside its space: {observation[~np.isfinite(observation)][:3]}")
        observation, reward, terminated, truncated, _ = env.step(np.int64(chance.randrange(env.a_dim)))
        if not np.isfinite(reward):
            raise AssertionError(f"the reward is {reward}")
        if terminated or truncated:
            break


def _control(trace: Any, ladder: Any, name: str) -> None:
    play(load_bitrate_controller(name), read_trace(trace), read_ladder(ladder))
