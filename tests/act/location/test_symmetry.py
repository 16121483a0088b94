"""What leaves a map as it is, and that all turns together: readings, directions and who is where."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from reelrl.act.location.readings import readings_of
from reelrl.act.location.samples import Moments, SampleSettings, occupied
from reelrl.act.location.symmetry import symmetries
from reelrl.act.location.train import where_each_is
from reelrl.act.recording.maps import MapPlan
from reelrl.act.recording.reader import MatchData
from tests.act.location.written_matches import PLAN, write_matches

if TYPE_CHECKING:
    from pathlib import Path


def test_four_equal_rooms_lie_upon_themselves_in_eight_ways() -> None:
    found = symmetries(PLAN)
    assert len(found) == 8
    assert found[0].places.tolist() == [0, 1, 2, 3]
    assert len({tuple(each.places) for each in found}) == 8


def test_a_wall_on_one_side_leaves_one_mirroring() -> None:
    walled = MapPlan(PLAN.name, np.concatenate([PLAN.walls, [[0, 100, 60, 100]]]), PLAN.places, PLAN.boxes)
    assert [each.places.tolist() for each in symmetries(walled)] == [[0, 1, 2, 3], [2, 3, 0, 1]]
    crooked = MapPlan(PLAN.name, np.concatenate([PLAN.walls, [[0, 100, 60, 90]]]), PLAN.places, PLAN.boxes)
    assert len(symmetries(crooked)) == 1
    unknown = MapPlan(PLAN.name, np.zeros((0, 4)), PLAN.places, PLAN.boxes)
    assert [each.places.tolist() for each in symmetries(unknown)] == [[0, 1, 2, 3]]


def test_readings_and_truth_turn_as_positions_do() -> None:
    rng = np.random.default_rng(0)
    position, angle = rng.uniform(1, 98, (20, 2)) + 101 * rng.integers(2, size=(20, 2)), rng.uniform(0, 2 * np.pi, 20)

    def readings(at: np.ndarray, towards: np.ndarray) -> torch.Tensor:
        own = occupied(PLAN.place_of(at[:, 0], at[:, 1])[:, None], 4).astype(float)
        said = np.zeros((20, 4, readings_of(2)))
        said[..., 0], said[..., 2:4], said[..., 5] = own, own[..., None] * towards[:, None], own
        return torch.from_numpy(said).flatten(1)

    looks = np.stack([np.cos(angle), np.sin(angle)], 1)
    for each in symmetries(PLAN):
        turned = (position - 100) @ each.turn.T + 100
        torch.testing.assert_close(each.readings(readings(position, looks)), readings(turned, looks @ each.turn.T))
        where = PLAN.place_of(position[:, 0], position[:, 1])[:, None]
        there = PLAN.place_of(turned[:, 0], turned[:, 1])[:, None]
        assert (each.marks(occupied(where, 4)) == occupied(there, 4)).all()
        assert (each.moved(where) == there).all()
        assert each.moved(np.array([[-1]])).tolist() == [[-1]]


def test_where_each_is_is_asked_of_players_and_named_enemies_as_they_were_turned(tmp_path: Path) -> None:
    data = MatchData.open(write_matches(tmp_path, 1))
    moments = Moments.of(data, data.matches, SampleSettings(frames=2, stride=4, ahead_s=1.0), PLAN)
    moments.player_places[3, 1] = -1  # dead: at none of the four, which comes fifth
    said = torch.randn(len(moments), 5, 5, 2, generator=torch.Generator().manual_seed(0)).log_softmax(2)
    for turn in (None, symmetries(PLAN)[5]):
        for enemies, asked in ((2, 5), (1, 3)):
            losses = []
            for number in range(len(moments)):
                now = [*moments.player_places[number], *moments.enemy_places[number]][:asked]
                ahead = [*moments.player_places_ahead[number], *moments.enemy_places_ahead[number]][:asked]
                for when, where in enumerate((now, ahead)):
                    for body, place in enumerate(where):
                        there = place if turn is None or place < 0 else turn.places.tolist().index(place)
                        losses.append(-said[number, body, there if place >= 0 else 4, when])
            found = where_each_is(said, moments, turn, enemies)
            torch.testing.assert_close(found, torch.stack(losses).mean())
