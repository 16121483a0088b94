"""Maps from above: every spot has a place, walls are where the engine has them, ways never cross them."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from reelrl.act.doom.scenarios import cloister, haunted_rooms, nine_rooms
from reelrl.act.recording.maps import REACH, MapPlan
from reelrl.act.recording.routes import Routes
from reelrl.act.recording.survey import grid_places, inside, survey, walls_of
from reelrl.errors import ContentError

if TYPE_CHECKING:
    from collections.abc import Sequence

OURS = {"haunted_rooms": haunted_rooms, "cloister": cloister}
ROOM = {"floor": 0.0, "ceiling": 128.0}


@pytest.fixture(scope="module", params=list(OURS))
def plan(request: pytest.FixtureRequest) -> MapPlan:
    return survey(request.param)


@pytest.fixture(scope="module")
def nine() -> MapPlan:
    return survey("haunted_rooms")


def box(west: float, south: float, east: float, north: float) -> list[list[float]]:
    """The four lines of a rectangle, open to pass."""
    corners = [(west, south), (west, north), (east, north), (east, south)]
    return [[*corners[i], *corners[(i + 1) % 4], False] for i in range(4)]


def crosses(start: Sequence[float], end: Sequence[float], wall: Sequence[float]) -> bool:
    def side(a: Sequence[float], b: Sequence[float], c: Sequence[float]) -> float:
        return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])

    one, other = wall[:2], wall[2:]
    apart = side(one, other, start) * side(one, other, end) < 0
    return apart and side(start, end, one) * side(start, end, other) < 0


@given(x=some.floats(0, 1312), y=some.floats(0, 1312))
def test_places_of_the_nine_rooms_are_as_the_level_says(x: float, y: float) -> None:
    boxes = haunted_rooms.places()
    plan = MapPlan("nine", np.zeros((0, 4)), tuple(boxes), np.array(list(boxes.values()), float))
    edge = nine_rooms.ROOM + nine_rooms.GAP / 2
    if min(abs((v % (nine_rooms.ROOM + nine_rooms.GAP)) - edge) for v in (x, y)) > 1e-6:  # half-way between two rooms
        assert plan.place_of(x, y) == nine_rooms.place_of(x, y)


def test_places_come_in_the_shape_of_the_positions(nine: MapPlan) -> None:
    x = np.array([[208.0, 656.0, np.nan], [-REACH - 1, 208.0, 5000.0]])
    assert nine.place_of(x, np.full((2, 3), 208.0)).tolist() == [[0, 1, -1], [-1, 0, -1]]
    assert nine.place_of(208.0, 208.0).shape == ()


def test_no_wall_stands_inside_a_place(plan: MapPlan) -> None:
    assert plan.places == tuple(OURS[plan.name].places())
    for west, south, east, north in plan.boxes:
        corners = [(west + 1, south + 1), (east - 1, south + 1), (east - 1, north - 1), (west + 1, north - 1)]
        for start, end in pairwise([*corners, corners[0], corners[2], corners[1], corners[3]]):
            assert not any(crosses(start, end, wall) for wall in plan.walls)


def test_the_engine_has_the_walls_that_the_level_was_made_of(nine: MapPlan) -> None:
    rooms, doorways = 9 * 4 * nine_rooms.ROOM, 12
    length = np.linalg.norm(nine.walls[:, 2:] - nine.walls[:, :2], axis=1).sum()
    assert length == rooms - doorways * 2 * nine_rooms.DOORWAY + doorways * 2 * nine_rooms.GAP


def test_every_place_can_be_walked_to_from_every_other_and_no_way_crosses_a_wall(plan: MapPlan) -> None:
    routes = Routes(plan)
    random = np.random.default_rng(0)
    west, south, east, north = plan.boxes[0]
    reach = routes.reachable(((west + east) / 2, (south + north) / 2))
    assert set(range(len(plan.places))) <= set(reach.by_place)
    for place in range(len(plan.places)):
        spots = reach.by_place[place]
        way = reach.way_to(spots[random.integers(len(spots))])
        for start, end in pairwise(way):
            assert not any(crosses(start, end, wall) for wall in plan.walls)
        assert plan.place_of(*way[-1]) == place


def test_a_step_too_high_and_a_low_ceiling_are_walls_and_a_closed_door_is_not() -> None:
    def between(**other: float) -> int:
        """How many lines stop a player between a room and another one."""
        sectors = [{**ROOM, "lines": box(0, 0, 100, 100)}, {**ROOM, **other, "lines": box(100, 0, 200, 100)}]
        return int((walls_of(sectors)[:, [0, 2]] == 100).all(axis=1).sum())

    assert between() == between(floor=24.0) == between(ceiling=0.0) == 0
    assert between(floor=25.0) == between(ceiling=50.0) == 1


def test_floor_is_what_lies_within_the_outline_whatever_rooms_it_is_made_of() -> None:
    yard = [{**ROOM, "lines": box(0, 0, 100, 100) + box(40, 40, 60, 60)}]  # around a pillar
    pond = [*yard, {**ROOM, "lines": box(40, 40, 60, 60)}]
    x, y = np.array([10.0, 50.0, 120.0]), np.array([10.0, 50.0, 50.0])
    assert inside(yard, x, y).tolist() == [True, False, False]
    assert inside(pond, x, y).tolist() == [True, True, False]


def test_a_map_without_names_is_cut_into_squares_that_hold_floor() -> None:
    rooms = [{**ROOM, "lines": box(0, 0, 1000, 200)}, {**ROOM, "lines": box(0, 200, 200, 1000)}]
    places = grid_places(rooms)
    assert list(places) == ["A1", "A2", "A3", "A4", "A5", "B1", "C1", "D1", "E1"]
    assert places["B1"] == (200.0, 0.0, 400.0, 200.0)


def test_a_plan_is_the_same_after_a_file(plan: MapPlan) -> None:
    again = MapPlan.from_json(plan.to_json(), "file")
    assert again.places == plan.places
    assert np.array_equal(again.walls, plan.walls)
    assert np.array_equal(again.boxes, plan.boxes)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"name": "a", "places": [{"name": "b"}], "walls": []}'])
def test_text_that_is_no_plan_is_refused_by_name(text: str) -> None:
    with pytest.raises(ContentError, match=r"maps/a.json is no map"):
        MapPlan.from_json(text, "maps/a.json")


def test_a_drawing_shows_walls_shades_and_dots(nine: MapPlan) -> None:
    plain, shaded = nine.draw(names=False), nine.draw(shades=[1] + [0] * 8, names=False)
    assert plain.shape == (480, 480, 3)
    changed = np.argwhere((plain != shaded).any(axis=2))
    assert changed[:, 0].min() > 300, "the first place is in the south, and north is up"
    assert changed[:, 1].max() < 180
    red = nine.draw(dots=[(656.0, 656.0, (255, 0, 0))], names=False)
    assert red[240, 240].tolist() == [255, 0, 0]
    assert math.isclose(nine.draw(size=240).shape[0], 240)
