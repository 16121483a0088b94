"""Links to learn on: recorded ones as they were, generated ones from steady to wild, and a share of them broken.

Only their shape counts: how fast a link is relative to the ladder is drawn for every video (`players`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reelrl.errors import ConfigError
from reelrl.seeding import stream
from reelrl.stream.data import generated_traces as generate
from reelrl.stream.data.pools import RESTLESS, data_folder, is_validation, validation_pools
from reelrl.stream.data.traces import read_traces

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.stream.data.traces import Trace

DURATION_S = 400.0
RECORDED_SHARE = 0.5
STEADY_SHARE = 0.15
HOPPING_SHARE = 0.1


def sources(folder: Path | None = None) -> dict[str, list[Trace]]:
    """The recorded training traces by the folder they lie in; none without data."""
    folder = folder or data_folder("traces/train")
    if folder is None:
        return {}
    inner = sorted(path for path in folder.iterdir() if path.is_dir())
    return {path.name: read_traces(path) for path in inner} or {folder.name: read_traces(folder)}


def training_links(
    recorded: dict[str, list[Trace]], seed: int, count: int, without: tuple[str, ...] = ()
) -> list[Trace]:
    """Links to learn on, none broken by us. Sources whose name begins with one of `without` are left out."""
    groups = [[trace for trace in traces if not is_validation(trace)] for traces in _used(recorded, without).values()]
    groups = [group for group in groups if group]
    rng = stream(seed, "abr", "scale-free links")
    return [_link(groups, rng) for _ in range(count)]


def breaking_links(links: list[Trace], seed: int, share: float) -> list[Trace]:
    """The same links, that share of the restless ones with outages: those who play on them cannot know which."""
    rng = stream(seed, "abr", "breaking links")

    def breaks(link: Trace) -> bool:
        return bool(link.kbps.std() > RESTLESS * link.kbps.mean() and rng.random() < share)

    return [_broken(link, rng) if breaks(link) else link for link in links]


def validation_links(recorded: dict[str, list[Trace]], without: tuple[str, ...] = ()) -> dict[str, list[Trace]]:
    """Links to select on, by pool; nothing of the sources left out either."""
    used = _used(recorded, without).values()
    return validation_pools(recorded=[trace for traces in used for trace in traces if is_validation(trace)])


def _used(recorded: dict[str, list[Trace]], without: tuple[str, ...]) -> dict[str, list[Trace]]:
    for start in without:
        if recorded and not any(name.startswith(start) for name in recorded):
            raise ConfigError(f"without = {start!r} is no source of traces; there are {', '.join(recorded)}")
    return {name: traces for name, traces in recorded.items() if not any(map(name.startswith, without))}


def _link(groups: list[list[Trace]], rng: np.random.Generator) -> Trace:
    if groups and rng.random() < RECORDED_SHARE:
        # Each source as often as any other: 400 of one kind must not drown 30 of another.
        group = groups[int(rng.integers(len(groups)))]
        trace = group[int(rng.integers(len(group)))]
        return generate.replay(trace, rng, noise=float(rng.uniform(0.0, 0.15)), duration_s=DURATION_S)
    kind = rng.random()
    if kind < HOPPING_SHARE:
        states = np.sort(np.exp(rng.uniform(np.log(150.0), np.log(6000.0), 5)))
        stay = float(rng.uniform(0.7, 0.97))
        return generate.markov_trace(rng, states_kbps=states.tolist(), stay=stay, duration_s=DURATION_S)
    steady = kind < HOPPING_SHARE + STEADY_SHARE
    return generate.mobile_trace(
        rng,
        slow_sd=float(rng.uniform(0.0, 0.15) if steady else rng.uniform(0.1, 0.8)),
        fast_sd=float(rng.uniform(0.0, 0.15) if steady else rng.uniform(0.1, 0.7)),
        slow_s=float(np.exp(rng.uniform(np.log(8.0), np.log(90.0)))),
        fast_s=float(rng.uniform(0.7, 5.0)),
        duration_s=DURATION_S,
    )


def _broken(trace: Trace, rng: np.random.Generator) -> Trace:
    return generate.with_outages(
        trace, rng, count=int(rng.integers(1, 4)), median_s=float(rng.uniform(5.0, 25.0)), longest_s=50.0
    )
