"""What nets are compared with: each knows what it says it knows, and nothing more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from reelrl.act.location.baselines.linear_reader import LinearReading
from reelrl.act.location.baselines.simple import AGES_S, AnonymousSightings, LastSighting, Prior, Sightings, baselines
from reelrl.act.location.model.net import HEADS
from reelrl.act.location.samples import Moments, SampleSettings, places_of
from reelrl.act.location.scores import average_precision, mean_precision
from reelrl.act.recording.reader import MatchData
from tests.act.location.written_matches import PLAN, labels_of, rooms_of, write_matches

if TYPE_CHECKING:
    from reelrl.act.location.baselines.simple import LocationBaseline

SAMPLES = SampleSettings(frames=3, stride=2, ahead_s=1.0)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> MatchData:
    return MatchData.open(write_matches(tmp_path_factory.mktemp("matches"), 10, rows=120))


@pytest.fixture(scope="module")
def moments(data: MatchData) -> Moments:
    return Moments.of(data, data.matches, SAMPLES, PLAN)


def score(baseline: LocationBaseline, moments: Moments, pov: np.ndarray) -> dict[str, float]:
    baseline.fit(moments, pov)
    said, truth = baseline.answer(moments, pov), moments.targets(pov)
    assert all((answer >= 0).all() and (answer <= 1).all() for answer in said.values())
    return {head: mean_precision(said[head], truth[head]) for head in HEADS}


def test_the_prior_answers_how_often_each_place_holds_somebody(moments: Moments) -> None:
    prior = Prior()
    prior.fit(moments, moments.present)
    truth = moments.targets(moments.present)
    for head, said in prior.answer(moments, moments.present).items():
        assert said[0] == pytest.approx(truth[head].mean(0))
        assert (said == said[0]).all()


def test_a_sighting_is_remembered_with_its_row() -> None:
    labels = labels_of(3, rows=60, players=2, enemies=0)
    sightings = Sightings.of(labels, PLAN)
    rooms = rooms_of(labels)
    together = np.flatnonzero(rooms[:, 0] == rooms[:, 1])
    for row in range(60):
        before = together[together <= row]
        assert sightings.last[row, 0, 1] == (before[-1] if len(before) else -1)


def test_the_oracle_is_certain_about_now_and_not_about_later(data: MatchData, moments: Moments) -> None:
    views, pov = moments.single_views()
    found = score(LastSighting(data, PLAN, SAMPLES, None, everybody=True), views, pov)
    assert found["mates_now"] == found["enemies_now"] == 1
    assert 0.5 < found["mates_ahead"] < 1


def test_the_more_is_known_the_better_the_answer(data: MatchData, moments: Moments) -> None:
    views, pov = moments.single_views()
    known = baselines(data, PLAN, SAMPLES, one_view=True)
    means = {name: np.mean(list(score(each, views, pov).values())) for name, each in known.items()}
    assert means["prior"] < means["sightings in the clip"] < means["sightings in the whole match"] < means["oracle"]
    assert means["prior"] < means["anonymous sightings"] < means["oracle"]


def test_who_was_seen_anonymously_was_somewhere_some_time_ago(data: MatchData, moments: Moments) -> None:
    """By a plain loop over the rows: when one of a kind was last in the same room as the player."""
    views, pov = moments.single_views()
    views, pov = views.take(np.arange(0, len(views), 37)), pov[::37]
    for mates, others in ((True, slice(0, 3)), (False, slice(3, None))):
        kinds = AnonymousSightings(data, PLAN)._kinds(views, pov, mates=mates)
        for number, player in enumerate(pov.argmax(1)):
            labels = data.match(views.matches[views.match[number]].id).labels
            where = np.concatenate([rooms_of(labels), places_of(PLAN, labels.enemy_position, labels.enemy_alive)], 1)
            own, where[:, player] = where[:, player].copy(), -1
            for place in range(4):
                rows = np.flatnonzero((where[:, others] == place).any(1) & (own == place))
                before = rows[rows <= views.row[number]]
                age_s = (views.row[number] - before[-1]) / data.rows_per_second if len(before) else np.inf
                wanted = sum(age_s >= step for step in AGES_S) - 1 if len(before) else len(AGES_S)
                assert kinds[number, place] == wanted


def test_who_watches_knows_where_it_is(data: MatchData, moments: Moments) -> None:
    """With all watching everybody's place is known, seen by others or not; with one view nothing is asked of it."""
    for memory_rows in (0, None):
        found = score(LastSighting(data, PLAN, SAMPLES, memory_rows), moments, moments.present)
        assert found["mates_now"] > 0.99
    two = np.tile([True, True, False], (len(moments), 1))
    for asked in LastSighting(data, PLAN, SAMPLES, 0)._asked(moments, two, "mates_now"):
        assert asked.known[:, :2].all()
        assert (asked.seen_at[:, :2] == asked.true_place[:, :2]).all()
        assert not asked.known[:, 2].all()


def test_a_linear_layer_reads_what_is_there(moments: Moments) -> None:
    truth = moments.targets(moments.present)
    told = np.concatenate([truth[head] for head in HEADS], axis=1).astype(np.float32)
    reading = LinearReading()
    reading.fit(told, truth)
    said = reading.answer(told)
    assert all(mean_precision(said[head], truth[head]) == 1 for head in HEADS)
    reading.fit(np.zeros((len(moments), 1), np.float32), truth)
    blind = reading.answer(np.zeros((3, 1), np.float32))
    for head in HEADS:
        assert blind[head] == pytest.approx(np.tile(truth[head].mean(0), (3, 1)), abs=0.01)


def test_answers_from_sightings_are_calibrated(data: MatchData, moments: Moments) -> None:
    views, pov = moments.single_views()
    baseline = LastSighting(data, PLAN, SAMPLES, None)
    baseline.fit(views, pov)
    said, truth = baseline.answer(views, pov), views.targets(pov)
    for head in HEADS:
        for low, high in ((0.2, 0.5), (0.6, 1.0)):
            some = (said[head] > low) & (said[head] < high)
            assert some.sum() > 100
            assert truth[head][some].mean() == pytest.approx(said[head][some].mean(), abs=0.1)


def test_nobody_is_asked_where_oneself_is(data: MatchData, moments: Moments) -> None:
    views, pov = moments.single_views()
    for asked in LastSighting(data, PLAN, SAMPLES, None)._asked(views, pov, "mates_now"):
        own = pov[asked.moments]
        assert (asked.true_place[:, :3][own] == -1).all()
        assert (asked.true_place[:, :3][~own] == views.player_places[asked.moments][~own]).all()
        assert (asked.true_place[:, 3:] == -1).all()


def test_own_place_needs_one_who_watches(data: MatchData) -> None:
    assert "own place" in baselines(data, PLAN, SAMPLES, one_view=True)
    assert "own place" not in baselines(data, PLAN, SAMPLES, one_view=False)


def test_average_precision_by_hand() -> None:
    answers = np.array([0.9, 0.8, 0.7, 0.6])
    assert average_precision(answers, np.array([True, False, True, False])) == pytest.approx((1 + 2 / 3) / 2)
    assert average_precision(np.full(4, 0.5), np.array([True, False, False, False])) == pytest.approx(0.25)
    assert np.isnan(average_precision(answers, np.zeros(4, bool)))
