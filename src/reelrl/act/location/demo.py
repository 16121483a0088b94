"""The part of `reel demo` on location: what a team sees, where everybody is, and where a net thinks they are.

A match that no net has seen is played and recorded; the frame reader and the net that ship answer about it, from one
player's view and from all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.act.location.answers import Answers, answers
from reelrl.act.location.baselines.simple import Sightings
from reelrl.act.location.belief_film import belief_pictures
from reelrl.act.location.dataset import row_encoder_of
from reelrl.act.location.embeddings import Clips
from reelrl.act.location.model.net import CrossEgoVideoLocationNet
from reelrl.act.location.samples import Marks, Moments
from reelrl.act.location.train import LocationTraining, with_memory
from reelrl.act.location.weights import MAP, NET, READER
from reelrl.act.recording.collect import Collection
from reelrl.act.recording.manifest import RecordingSettings
from reelrl.act.recording.maps import MapPlan
from reelrl.act.recording.reader import MatchData, Matches, MatchInfo
from reelrl.act.video.encoder import VideoEncoderSettings
from reelrl.agents.devices import use_threads
from reelrl.content.write.film import write_film
from reelrl.report.demo_part import DemoPart
from reelrl.report.page import code, section, table, video
from reelrl.runs.progress import Progress, track
from reelrl.storage.regular_files import own_path

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from reelrl.act.location.row_encoders import RowEncoder
    from reelrl.report.demo_part import DemoOptions
    from reelrl.report.page import Html

SECONDS, SEED = 40.0, 1000
"""The nets that ship learned from matches of seed 0."""
RESOLUTION, PICTURE = "RES_160X120", (120, 160)
WATCHER = 0
HEADS = {"mates_now": "mates", "enemies_now": "enemies"}
FILM = "who-is-where.mp4"
TITLE = "Know who is where"
LEAD = (
    "Four players roam through nine rooms, and five enemies with them. A net sees what the players see and nothing "
    "else, remembers it, and says which rooms hold a teammate and which an enemy."
)


@dataclass(frozen=True, eq=False)
class WatchedMatch:
    """One match and what the net says of its moments: from the first player's view, and from all."""

    data: Matches
    info: MatchInfo
    plan: MapPlan
    moments: Moments
    by_one: Answers
    by_all: Answers
    net: Callable[[Moments, Marks], Answers]

    def first_choices(self) -> dict[str, dict[str, float]]:
        """By who chooses and head: how often the room that is chosen first holds somebody."""
        moments, views = self.moments.single_views()
        truth, said = moments.targets(views), self.net(moments, views)
        seen = last_sightings(self.data, self.info, self.plan, moments, views)
        everybody = self.moments.targets(self.moments.present)
        return {
            "the net, by all views": {head: first_choice(self.by_all[head], everybody[head]) for head in HEADS},
            "the net, by one view": {head: first_choice(said[head], truth[head]) for head in HEADS},
            "the last one on that screen": {head: first_choice(seen[head], truth[head]) for head in HEADS},
            "chance": {head: first_choice(np.zeros(truth[head].shape), truth[head]) for head in HEADS},
        }


def make(folder: Path, options: DemoOptions) -> DemoPart:  # noqa: ARG001 - plays a match of its own
    use_threads(1)
    watched = watch_match(folder / "match")
    rows = range(watched.moments.row[0], watched.info.frames)
    film = track(belief_pictures(watched, WATCHER, rows), "film", total=len(rows), unit="pictures")
    try:
        first = next(film)
        write_film(own_path(folder / FILM), chain([first], film), watched.data.rows_per_second)
    finally:
        watched.data.close()
    choices = watched.first_choices()
    height, width = first.shape[:2]
    lines = [
        ["place", name, *(f"{HEADS[head]} {share:.0%}" for head, share in by.items())] for name, by in choices.items()
    ]
    part = _section(choices, (width, height), len(watched.moments.single_views()[0]))
    return DemoPart(TITLE, LEAD, [part], {"location": choices}, lines, [FILM])


def watch_match(folder: Path) -> WatchedMatch:
    """A new match in the folder, or the one that is there, and what the nets that ship make of it."""
    data = _recorded(folder, RecordingSettings(resolution=RESOLUTION, seed=SEED, seconds=SECONDS))
    info, plan = data.matches[0], data.map(MAP)
    reader = VideoEncoderSettings(model_type="frame-reader", freeze_backbone=True, weights=str(READER))
    learned = with_memory(LocationTraining(data=str(folder), encoder=reader, picture_size=PICTURE))
    moments = Moments.of(data, [info], learned.samples, plan)
    clips = Clips.of(data, [info], _Unstored(row_encoder_of(learned)))
    net = CrossEgoVideoLocationNet.load(NET)

    def answer(some: Moments, views: Marks) -> Answers:
        return answers(net, clips, some, learned.pooling, views)

    by_one, by_all = of_the_living(answer, moments, WATCHER), answer(moments, moments.present)
    return WatchedMatch(data, info, plan, moments, by_one, by_all, answer)


def of_the_living(answer: Callable[[Moments, Marks], Answers], moments: Moments, watcher: int) -> Answers:
    """What is said from one player's view alone; zeros while it is dead, for nobody can be asked then."""
    alive = np.flatnonzero(moments.present[:, watcher])
    some = moments.take(alive)
    said = answer(some, some.present & (np.arange(some.present.shape[1]) == watcher))
    whole = {head: np.zeros((len(moments), each.shape[1]), np.float32) for head, each in said.items()}
    for head, each in said.items():
        whole[head][alive] = each
    return whole


def _recorded(folder: Path, settings: RecordingSettings) -> MatchData:
    collection = Collection(folder, settings)
    try:
        with Progress("match", 1, unit="matches") as progress:
            for _ in collection.collect(MAP, 1):
                progress.update()
    finally:
        collection.close()
    return MatchData.open(folder)


class _Unstored:
    """Reads each match anew: there is one, and it is read once."""

    def __init__(self, encoder: RowEncoder) -> None:
        self.encoder = encoder

    def has(self, info: MatchInfo) -> bool:
        del info
        return False

    def rows(self, data: Matches, info: MatchInfo, on_rows: Callable[[int], None]) -> NDArray[Any]:
        return self.encoder.encode(data.match(info.id), on_rows)


def first_choice(said: NDArray[Any], truth: Marks) -> float:
    """How often the surest of the places [N, places] holds somebody, of moments with somebody anywhere.

    Of places that are equally sure one is drawn.
    """
    asked = truth.any(1)
    surest = said == said.max(1, keepdims=True)
    return float(((surest & truth).sum(1) / surest.sum(1))[asked].mean())


def last_sightings(data: Matches, info: MatchInfo, plan: MapPlan, moments: Moments, views: Marks) -> Answers:
    """How lately each place [N, places] held somebody on the screen of the one player who watches, by ground truth."""
    sightings, watcher = Sightings.of(data.match(info.id).labels, plan), views.argmax(1)
    last, seen_at = (each[moments.row, watcher] for each in (sightings.last, sightings.seen_at))
    players = views.shape[1]
    kinds = {"mates_now": slice(0, players), "enemies_now": slice(players, None)}
    latest = {}
    for head, kind in kinds.items():
        there = seen_at[:, kind, None] == np.arange(len(plan.places))
        latest[head] = np.where(there, last[:, kind, None] + 1, 0).max(1).astype(np.float32)
    return latest


def _section(choices: dict[str, dict[str, float]], size: tuple[int, int], views: int) -> Html:
    rows = [[name, *(f"{by[head]:.0%}" for head in HEADS)] for name, by in choices.items()]
    return section(
        TITLE,
        f"{LEAD} Dots are the truth: players blue, the first one black, enemies red. The more orange a room, the surer "
        "the net that somebody is there; the lower maps are from the first player's view alone.",
        video(FILM, "what the players see, where everybody is, and where the net thinks they are", *size),
        table(
            ["first choice of", "a mate is there", "an enemy is there"],
            rows,
            f"Of all rooms the surest one, in one match that no net has learned from: {views} moments and views. The "
            "last one on that screen is known by the game's ground truth; the net has pixels alone. "
            "One match proves little: reel evaluate location takes many.",
            wrap=True,
        ),
        code(
            "reel demo --only locate --again\n"
            "reel collect doom --matches 240 -o data/doom\n"
            "reel train frame-reader data/doom\n"
            "reel train location data/doom --frame-reader runs/0001\n"
            "reel evaluate location runs/0002"
        ),
    )
