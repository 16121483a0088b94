"""What is streamed: a street in six rungs over a link with outages, by each controller in the simulator.

folder/                    a site of `reel ladder`, made once
folder/link.json           the network, for `reel play --trace`
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.content.sources import open_clip
from reelrl.errors import MissingExtra
from reelrl.storage.files import write_atomic
from reelrl.storage.regular_files import own_path, read_regular
from reelrl.stream.data.generated_traces import mobile_trace, with_outages
from reelrl.stream.data.ladder_encoding import LadderSettings, encode_ladder
from reelrl.stream.data.ladders import read_ladder
from reelrl.stream.data.traces import write_trace
from reelrl.stream.playback import Playback, load_bitrate_controller, play

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from reelrl.stream.controllers.protocol import Controller
    from reelrl.stream.data.ladders import Ladder
    from reelrl.stream.data.traces import Trace

CLIP = "generated:street?size=320x192&frames=600&fps=15"
SETTINGS = LadderSettings(kbps=(150, 300, 500, 800, 1200, 1800), preset=12)
QOE, BUFFER_S = "scaled", 20.0
CONTROLLERS = ("scalefree", "robustmpc", "bola(18)")
"""BOLA takes its highest rung at 18 s: at its usual 30 s it never would, with that buffer."""
OTHER_LINKS = 20
RECIPE = "recipe.json"


@dataclass(frozen=True)
class Watching:
    """One session on the clock: when the first picture of each segment was shown."""

    playback: Playback
    segment_s: float
    rungs: list[int]
    shown_s: list[float]
    others: list[Playback]
    """The same over other links of the kind."""

    @property
    def stalls(self) -> list[tuple[float, float]]:
        """From when to when the picture stood still, the wait for the first one apart."""
        due = [(before + self.segment_s, after) for before, after in pairwise(self.shown_s)]
        return [(since, until) for since, until in due if until > since + 1e-6]

    @property
    def ended_s(self) -> float:
        return self.shown_s[-1] + self.segment_s


def segment_count() -> int:
    clip = open_clip(CLIP)
    return int(clip.duration_s // SETTINGS.segment_s)


def make_site(folder: Path, clip: str, settings: LadderSettings, encoded: Callable[[], None] = lambda: None) -> Ladder:
    """The ladder in the folder; encoded unless it is there already."""
    recipe = json.dumps({"clip": clip, **asdict(settings)})
    note = own_path(folder / RECIPE)
    if note.is_file() and read_regular(note).decode() == recipe:
        return read_ladder(folder)
    note.unlink(missing_ok=True)
    encode_ladder(open_clip(clip), folder, settings, lambda _segment, _rung: encoded())
    write_atomic(note, recipe)
    return read_ladder(folder)


def bad_link(ladder: Ladder, seed: int = 0) -> Trace:
    """A moving receiver that carries rungs in the middle, and is cut off once."""
    rng = np.random.default_rng(seed)
    middle_kbps = float(np.median(ladder.bitrates_kbps))
    trace = mobile_trace(rng, duration_s=60.0, mean_kbps=1.5 * middle_kbps, name="link")
    return with_outages(trace, rng, median_s=5.0, longest_s=8.0)


def watch(name: str, controller: Controller, trace: Trace, ladder: Ladder, others: int = OTHER_LINKS) -> Watching:
    """The whole video by one controller, in the simulator."""
    played = _played(name, controller, trace, ladder)
    rungs = [int(np.argmin(np.abs(ladder.bitrates_kbps - kbps))) for kbps in played.timeline["bitrate_kbps"]]
    segment_s = ladder.video().chunk_s
    _, shown_s = on_the_clock(played, segment_s)
    elsewhere = [_played(name, controller, bad_link(ladder, seed), ladder) for seed in range(1, 1 + others)]
    return Watching(played, segment_s, rungs, shown_s, elsewhere)


def _played(name: str, controller: Controller, trace: Trace, ladder: Ladder) -> Playback:
    return play(controller, trace, ladder, name=name, preset=None, qoe=QOE, buffer_s=BUFFER_S, timeline=True)


def load_all(names: Sequence[str]) -> tuple[dict[str, Controller], list[str]]:
    """The controllers by name, and why others could not be had: a learned one may need what is not installed."""
    found: dict[str, Controller] = {}
    missing = []
    for name in names:
        try:
            loaded: Any = load_bitrate_controller(name)
        except MissingExtra as error:
            missing.append(f"{name}: {error}")
        else:
            found[name] = loaded.for_one_player() if hasattr(loaded, "for_one_player") else loaded
    return found, missing


def on_the_clock(played: Playback, segment_s: float) -> tuple[list[float], list[float]]:
    """When each segment had come and when it was first shown, in seconds since the first was asked for."""
    arrived: list[float] = []
    shown: list[float] = []
    asked_s = 0.0
    for delay_ms, sleep_ms in zip(played.timeline["delay_ms"], played.timeline["sleep_ms"], strict=True):
        arrived.append(asked_s + delay_ms / 1000.0)
        shown.append(max(arrived[-1], shown[-1] + segment_s) if shown else arrived[-1])
        asked_s = arrived[-1] + sleep_ms / 1000.0
    return arrived, shown


def save_link(trace: Trace, folder: Path) -> Path:
    path = own_path(folder / "link.json")
    write_trace(trace, path)
    return path
