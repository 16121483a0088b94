"""Moments: who watches, who is where, and that nobody's own place is asked of its own view."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import integers

from reelrl.act.location.samples import Moments, SampleSettings, _match_moments, epoch_batches, occupied, random_views
from reelrl.act.recording.reader import MatchData
from reelrl.errors import ConfigError, ContentError
from tests.act.location.written_matches import PLAN, labels_of, rooms_of, write_matches

if TYPE_CHECKING:
    from reelrl.act.recording.labels import Labels

SETTINGS = SampleSettings(frames=3, stride=2, ahead_s=1.0)
AHEAD = 9  # rows: 1 s at 8.75 a second


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> MatchData:
    return MatchData.open(write_matches(tmp_path_factory.mktemp("matches"), 6))


def moments_of(labels: Labels) -> dict[str, np.ndarray]:
    return _match_moments(labels, 0, SETTINGS, AHEAD, labels.alive.shape[1], PLAN)[0]


def test_places_are_those_of_the_row_and_of_the_row_ahead(data: MatchData) -> None:
    moments = Moments.of(data, data.matches, SETTINGS, PLAN)
    for number in (0, len(moments) // 2, len(moments) - 1):
        labels = data.match(moments.matches[moments.match[number]].id).labels
        row = moments.row[number]
        assert (moments.player_places[number] == rooms_of(labels)[row]).all()
        assert (moments.player_places_ahead[number] == rooms_of(labels)[row + AHEAD]).all()


def test_every_row_with_a_whole_clip_and_a_future_is_a_moment(data: MatchData) -> None:
    moments = Moments.of(data, data.matches, SETTINGS, PLAN)
    rows = moments.row[moments.match == 0]
    assert rows.tolist() == list(range(4, data.matches[0].frames - AHEAD, 2))


def test_one_player_is_asked_for_the_others_and_two_for_everybody(data: MatchData) -> None:
    moments = Moments.of(data, data.matches, SETTINGS, PLAN)
    for player in range(3):
        pov = np.tile(np.arange(3) == player, (len(moments), 1))
        others = np.delete(moments.player_places, player, axis=1)
        assert (moments.targets(pov)["mates_now"] == occupied(others, 4)).all()
    two = np.tile([True, True, False], (len(moments), 1))
    assert (moments.targets(two)["mates_now"] == occupied(moments.player_places, 4)).all()


def test_who_was_dead_during_the_clip_does_not_watch_but_stays_a_mate() -> None:
    labels = labels_of(0, rows=40, players=3)
    alive = labels.alive.copy()
    alive[10, 1] = False
    found = moments_of(replace(labels, alive=alive))
    watching = dict(zip(found["row"].tolist(), found["present"][:, 1].tolist(), strict=True))
    assert [row for row, watches in watching.items() if not watches] == [10, 12, 14]
    places = dict(zip(found["row"].tolist(), found["player_places"][:, 1].tolist(), strict=True))
    assert places[10] == -1
    assert places[12] == rooms_of(labels)[12, 1]


def test_moments_that_nobody_watches_are_left_out() -> None:
    labels = labels_of(0, rows=40, players=2)
    alive = labels.alive.copy()
    alive[20] = False
    assert not {20, 22, 24} & set(moments_of(replace(labels, alive=alive))["row"].tolist())


def test_players_of_the_other_side_are_enemies() -> None:
    labels = labels_of(0, rows=40, players=4, enemies=0)
    team = np.tile(np.array([0, 0, 1, 1], np.int8), (40, 1))
    ours, theirs = _match_moments(replace(labels, team=team), 0, SETTINGS, AHEAD, 4, PLAN)
    rooms = rooms_of(labels)[ours["row"]]
    assert (occupied(ours["enemy_places"], 4) == occupied(rooms[:, 2:], 4)).all()
    assert (occupied(theirs["enemy_places"], 4) == occupied(rooms[:, :2], 4)).all()
    assert not ours["present"][:, 2:].any()


def test_single_views_show_every_player_once(data: MatchData) -> None:
    moments = Moments.of(data, data.matches, SETTINGS, PLAN)
    views, pov = moments.single_views()
    assert len(views) == moments.present.sum()
    assert (pov.sum(1) == 1).all()
    assert (pov <= views.present).all()


def test_matches_that_are_too_short_are_told(data: MatchData) -> None:
    with pytest.raises(ContentError, match=r"the longest has 80 rows, 208 are needed"):
        Moments.of(data, data.matches, replace(SETTINGS, frames=100), PLAN)


@pytest.mark.parametrize("wrong", [{"frames": 0}, {"stride": 0}, {"ahead_s": 0.0}])
def test_settings_that_cannot_be_are_told(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        replace(SETTINGS, **wrong)


@settings(max_examples=25, deadline=None)
@given(seed=integers(0, 1000), matches=integers(1, 7), of_each=integers(1, 9), apart=integers(1, 30))
def test_an_epoch_has_every_moment_once_and_none_near_in_time(
    data: MatchData, seed: int, matches: int, of_each: int, apart: int
) -> None:
    moments = Moments.of(data, data.matches, SETTINGS, PLAN)
    rng = np.random.default_rng(seed)
    batches = epoch_batches(moments, rng, matches=matches, of_each=of_each, apart_rows=apart)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(moments)))
    for batch in batches:
        assert len(np.unique(moments.match[batch])) <= matches
        for match in np.unique(moments.match[batch]):
            rows = np.sort(moments.row[batch][moments.match[batch] == match])
            assert len(rows) <= of_each
            assert (np.diff(rows) >= apart).all()


def test_random_views_are_of_those_present_and_never_of_nobody() -> None:
    rng = np.random.default_rng(0)
    present = rng.random((2000, 4)) < 0.6
    present[:, 0] |= ~present.any(1)
    pov = random_views(present, rng)
    assert (pov <= present).all()
    assert pov.any(1).all()
    full = pov[present.all(1)].sum(1)
    assert np.mean(full == 1) == pytest.approx(0.5 + 0.5 / 4, abs=0.08)
    assert set(full) == {1, 2, 3, 4}
    assert (random_views(present, rng, 2).sum(1) == np.minimum(present.sum(1), 2)).all()
