"""Which traces a controller learns from, and which it is selected on. The test folder is never opened here.

The real training traces are split by a hash of their name; each side is then widened: replayed from random moments with
noise, rescaled to slower and faster networks, mixed with generated mobile and Markov links, and broken by outages.
"""

from __future__ import annotations

import os
import zlib
from functools import cache
from pathlib import Path

import numpy as np

from reelrl.errors import ContentError
from reelrl.seeding import stream
from reelrl.stream.data import generated_traces as generate
from reelrl.stream.data.traces import Trace, read_traces

VALIDATION_SHARE = 0.15
DURATION_S = 320.0
OUTAGE_SHARE = 0.25
RESTLESS = 0.25  # deviation / mean of the rate above which a link may lose its signal


def data_folder(part: str) -> Path | None:
    """`part` of the folder that REELRL_DATA names, if both are there."""
    root = os.environ.get("REELRL_DATA")
    path = Path(root) / part if root else None
    return path if path is not None and path.is_dir() else None


def recorded_traces(side: str, folder: Path | None = None) -> list[Trace]:
    """The recorded training traces of one side, `train` or `validation`; none without data."""
    folder = folder or data_folder("traces/train")
    if folder is None:
        return []
    if "test" in folder.resolve().parts:
        raise ContentError(f"{folder} is a test folder; controllers are trained and selected on training traces only")
    wanted = side == "validation"
    return [trace for trace in read_traces(folder) if is_validation(trace) == wanted]


def is_validation(trace: Trace) -> bool:
    """Whether a recorded trace is one to select on, not to learn from: its name decides."""
    return _share(trace.name) < VALIDATION_SHARE


def training_pool(
    seed: int, count: int = 6000, outage_share: float = OUTAGE_SHARE, folder: Path | None = None
) -> list[Trace]:
    """Links to learn on."""
    return _pool(recorded_traces("train", folder), stream(seed, "abr", "train"), count, outage_share)


@cache
def default_links() -> list[Trace]:
    """Forty generated mobile links without outages: what an environment plays on that is given none."""
    rng = stream(0, "abr", "default")
    return [_mobile(rng) for _ in range(40)]


def generated_pool(rng: np.random.Generator, count: int, outage_share: float = OUTAGE_SHARE) -> list[Trace]:
    """Generated links alone."""
    return _pool([], rng, count, outage_share)


def validation_pools(
    seed: int = 0, folder: Path | None = None, recorded: list[Trace] | None = None
) -> dict[str, list[Trace]]:
    """Links to select on: recorded ones as they are (the folder's, unless given), mobile ones, ones with outages."""
    recorded = recorded_traces("validation", folder) if recorded is None else recorded
    rng = stream(seed, "abr", "validation")
    mobile = [_mobile(rng) for _ in range(60)]
    scaled = [t for t in recorded if t.kbps.mean() < 6000.0] or mobile
    return {
        "recorded": scaled,
        "mobile": mobile + [_rescaled(t, rng, 0.5, 4.0) for t in recorded if t.kbps.mean() >= 6000.0 for _ in range(4)],
        "outages": [_broken(_restless(recorded, rng), rng) for _ in range(80)],
    }


def evaluation_sets() -> dict[str, list[Trace]]:
    """Every set at hand to compare on: test sets, what is held out of each training set, generated links."""
    sets: dict[str, list[Trace]] = {}
    for part, label in (("traces/test", "test: {}"), ("traces/train", "held out of {}")):
        folder = data_folder(part)
        for source in sorted(path for path in folder.iterdir() if path.is_dir()) if folder else []:
            traces = read_traces(source) if part.endswith("test") else recorded_traces("validation", source)
            if traces:
                sets[label.format(source.name)] = traces
    rng = stream(2, "abr", "sets")
    sets["generated mobile"] = [_mobile(rng) for _ in range(60)]
    sets["generated outages"] = [_broken(_mobile(rng), rng) for _ in range(60)]
    return sets


def _pool(recorded: list[Trace], rng: np.random.Generator, count: int, outage_share: float) -> list[Trace]:
    links: list[Trace] = []
    for _ in range(count):
        broken = rng.random() < outage_share
        links.append(_broken(_restless(recorded, rng), rng) if broken else _pick(recorded, rng))
    return links


def _pick(recorded: list[Trace], rng: np.random.Generator) -> Trace:
    """One link: recorded in half of the cases where there are recordings."""
    kind = rng.random()
    if recorded and kind < 0.6:
        trace = recorded[int(rng.integers(len(recorded)))]
        if kind < 0.25 and trace.kbps.mean() < 6000.0:
            return generate.replay(trace, rng, noise=0.05, duration_s=DURATION_S)
        return _rescaled(trace, rng, 0.3, 6.0)
    if kind < 0.93:
        return _mobile(rng)
    states = np.sort(np.exp(rng.uniform(np.log(150.0), np.log(6000.0), 5)))
    return generate.markov_trace(
        rng, states_kbps=states.tolist(), stay=float(rng.uniform(0.7, 0.97)), duration_s=DURATION_S
    )


def _restless(recorded: list[Trace], rng: np.random.Generator) -> Trace:
    """A link whose rate varies. Steady wired links do not fade out, and a controller should be able to trust them."""
    for _ in range(20):
        link = _pick(recorded, rng)
        if link.kbps.std() > RESTLESS * link.kbps.mean():
            return link
    return _mobile(rng)


def _rescaled(trace: Trace, rng: np.random.Generator, low_mbps: float, high_mbps: float) -> Trace:
    mean_kbps = 1000.0 * float(np.exp(rng.uniform(np.log(low_mbps), np.log(high_mbps))))
    return generate.replay(trace, rng, noise=0.1, mean_kbps=mean_kbps, duration_s=DURATION_S)


def _mobile(rng: np.random.Generator) -> Trace:
    return generate.mobile_trace(
        rng,
        mean_kbps=1000.0 * float(np.exp(rng.uniform(np.log(0.4), np.log(5.0)))),
        slow_sd=float(rng.uniform(0.1, 0.7)),
        fast_sd=float(rng.uniform(0.1, 0.6)),
        slow_s=float(rng.uniform(10.0, 60.0)),
        fast_s=float(rng.uniform(1.0, 4.0)),
        duration_s=DURATION_S,
    )


def _broken(trace: Trace, rng: np.random.Generator) -> Trace:
    return generate.with_outages(
        trace, rng, count=int(rng.integers(1, 4)), median_s=float(rng.uniform(5.0, 25.0)), longest_s=50.0
    )


def _share(name: str) -> float:
    return zlib.crc32(name.encode()) / 2**32
