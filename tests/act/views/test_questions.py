"""What a view is asked, against a plain loop over everybody; and which moments have labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reelrl.act.location.samples import Moments, SampleSettings
from reelrl.act.recording.reader import MatchData
from reelrl.act.views.questions import AHEAD_S, NAMES, WHO, Questions, labelled
from tests.act.location.written_matches import PLAN, rooms_of, write_matches

if TYPE_CHECKING:
    from numpy.typing import NDArray


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> MatchData:
    return MatchData.open(write_matches(tmp_path_factory.mktemp("matches"), 2, rows=100, players=3))


def test_the_truth_is_that_of_a_plain_loop(data: MatchData) -> None:
    moments = Moments.of(data, data.matches, SampleSettings(frames=1, stride=9, ahead_s=0.1), None)
    asked = Questions.of(data, moments, PLAN)
    for number in range(len(moments)):
        labels = data.match(moments.matches[moments.match[number]].id).labels
        enemies = PLAN.place_of(labels.enemy_position[..., 0], labels.enemy_position[..., 1])
        later = [moments.row[number] + round(ahead * data.rows_per_second) for ahead in AHEAD_S]
        assert asked.known[number].tolist() == [bool(later[-1] < 100)] * 3
        if later[-1] >= 100:
            continue
        for player in range(3):
            expected = {
                "mates": [{rooms_of(labels)[row, mate] for mate in range(3) if mate != player} for row in later],
                "enemies": [set(enemies[row]) for row in later],
            }
            found = [set(np.flatnonzero(places)) for places in asked.truth[number, player]]
            assert found == [places for who in WHO for places in expected[who]]
    assert asked.truth.shape[2] == len(NAMES)


@given(st.integers(1, 500), st.floats(0.001, 1), st.floats(0.001, 1), st.integers(0, 3))
def test_a_larger_share_has_the_labels_of_a_smaller_one(count: int, one: float, other: float, seed: int) -> None:
    few, many = (set(labelled(count, share, seed).tolist()) for share in sorted((one, other)))
    assert few <= many
    assert len(few) == max(1, round(min(one, other) * count))
    assert len(labelled(count, 1.0, seed)) == count


def test_seeds_choose_other_moments() -> None:
    def chosen(seed: int) -> NDArray[np.int64]:
        return labelled(1000, 0.1, seed)

    assert np.array_equal(chosen(1), chosen(1))
    assert len(np.intersect1d(chosen(1), chosen(2))) < 30
