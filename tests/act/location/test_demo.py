from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reelrl.act.location.belief_film import belief_pictures
from reelrl.act.location.demo import HEADS, WatchedMatch, first_choice, last_sightings, of_the_living
from reelrl.act.location.model.net import CrossEgoVideoLocationNet
from reelrl.act.location.samples import Moments, SampleSettings
from reelrl.act.location.weights import MAP, NET, READER
from reelrl.act.recording.reader import MatchData
from tests.act.location.written_matches import HEIGHT, PLAN, WIDTH, write_matches

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.act.location.answers import Answers
    from reelrl.act.location.samples import Marks

SAMPLES = SampleSettings(frames=2)
PLACES = len(PLAN.places)


@given(st.integers(0, 2**32 - 1))
def test_who_knows_the_truth_is_always_right_and_who_knows_nothing_as_often_as_by_chance(seed: int) -> None:
    truth = np.random.default_rng(seed).random((9, PLACES)) < 0.5
    truth[0] = [True, *[False] * (PLACES - 1)]
    assert first_choice(truth.astype(float), truth) == 1
    assert first_choice(np.zeros(truth.shape), truth) == pytest.approx(truth[truth.any(1)].mean())


def watched_match(folder: Path) -> WatchedMatch:
    data = MatchData.open(write_matches(folder, 1, rows=40, players=4))
    info = data.matches[0]
    moments = Moments.of(data, [info], SAMPLES, PLAN)
    truth = {head: marks.astype(np.float32) for head, marks in moments.targets(moments.present).items()}
    return WatchedMatch(data, info, PLAN, moments, truth, truth, lambda some, views: some.targets(views))  # type: ignore[arg-type, return-value]


def test_who_is_on_the_screen_is_the_latest_sighting(tmp_path: Path) -> None:
    """Players of these matches see who is in their room, so there the latest sighting is where they are themselves."""
    watched = watched_match(tmp_path)
    moments, views = watched.moments.single_views()
    seen = last_sightings(watched.data, watched.info, PLAN, moments, views)
    own = moments.player_places[np.arange(len(moments)), views.argmax(1)]
    company = moments.targets(views)["mates_now"][np.arange(len(moments)), own]
    assert company.any()
    assert (seen["mates_now"].argmax(1) == own)[company].all()
    choices = watched.first_choices()
    assert all(choices["the net, by one view"][head] == 1 >= choices["chance"][head] for head in HEADS)


def test_the_dead_are_not_asked(tmp_path: Path) -> None:
    """The net refuses moments that nobody sees."""
    moments = watched_match(tmp_path).moments
    moments.present[1, 0] = False

    def answer(some: Moments, views: Marks) -> Answers:
        assert views.sum(1).tolist() == [1] * len(some)
        return {"mates_now": np.ones((len(some), PLACES), np.float32)}

    said = of_the_living(answer, moments, 0)["mates_now"]
    assert said.any(1).tolist() == moments.present[:, 0].tolist()


def test_a_picture_of_the_film_has_all_views_and_four_maps_of_their_height(tmp_path: Path) -> None:
    watched = watched_match(tmp_path)
    pictures = list(belief_pictures(watched, 0, range(watched.moments.row[0], watched.info.frames)))
    assert len(pictures) == watched.info.frames - watched.moments.row[0]
    assert len({picture.shape for picture in pictures}) == 1
    height, width = pictures[0].shape[:2]
    assert height > 2 * 2 * HEIGHT
    assert width > 2 * 2 * WIDTH


def test_the_nets_that_ship_fit_each_other_and_are_small() -> None:
    net = CrossEgoVideoLocationNet.load(NET).settings
    assert (net.num_places, net.players, net.enemies) == (9, 4, 5)
    assert READER.name.startswith(MAP)
    assert READER.stat().st_size + NET.stat().st_size < 900_000
