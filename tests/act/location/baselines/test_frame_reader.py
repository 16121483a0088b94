"""The last visible place as a frame reader saw it, against a slow look back through what it said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from reelrl.act.location.baselines.frame_reader import FrameReaderSightings
from reelrl.act.location.baselines.simple import LastSighting
from reelrl.act.location.embeddings import Clips
from reelrl.act.location.readings import OF_SELF, readings_of
from reelrl.act.location.row_encoders import Thumbnails
from reelrl.act.location.samples import Moments, SampleSettings
from reelrl.act.recording.reader import MatchData
from tests.act.location.written_matches import PLAN, rooms_of, write_matches

if TYPE_CHECKING:
    from numpy.typing import NDArray

PLAYERS, BODIES, PLACES = 3, 5, 4


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> MatchData:
    return MatchData.open(write_matches(tmp_path_factory.mktemp("matches"), 2))


def readings(data: MatchData, stride: int) -> list[NDArray[np.float32]]:
    """What a perfect frame reader says of each match: [players, steps, places, F]."""
    found = []
    for info in data.matches:
        labels = data.match(info.id).labels
        enemies = PLAN.place_of(labels.enemy_position[..., 0], labels.enemy_position[..., 1])
        where = np.concatenate([rooms_of(labels), enemies], axis=1)[::stride]
        sees = np.concatenate([labels.sees_mate, labels.sees_enemy], axis=2)[::stride]
        said = np.zeros((PLAYERS, len(where), PLACES, readings_of(BODIES)), np.float32)
        for player in range(PLAYERS):
            for step in range(len(where)):
                said[player, step, where[step, player], 0] = 1
                for body in np.flatnonzero(sees[step, player]):
                    said[player, step, where[step, body], len(OF_SELF) + body] = 0.9
        found.append(said)
    return found


def clips_of(said: list[NDArray[np.float32]], samples: SampleSettings) -> Clips:
    table = torch.from_numpy(np.concatenate([each.reshape(-1, PLACES * readings_of(BODIES)) for each in said]))
    players, steps = np.array([each.shape[:2] for each in said]).T
    return Clips(table, players, steps, Thumbnails(samples))


def test_a_perfect_reader_of_every_frame_knows_what_the_game_tells(data: MatchData) -> None:
    samples = SampleSettings(frames=2, stride=1, ahead_s=1.0)
    moments = Moments.of(data, data.matches, samples, PLAN)
    reader = FrameReaderSightings(data, PLAN, samples, {moments.matches: clips_of(readings(data, 1), samples)})
    game = LastSighting(data, PLAN, samples, None)
    views, pov = moments.single_views()
    for asked, watching in ((views, pov), (moments, moments.present)):
        for head in ("mates_now", "enemies_ahead"):
            pairs = zip(reader._asked(asked, watching, head), game._asked(asked, watching, head), strict=True)
            for ours, theirs in pairs:
                assert (ours.known == theirs.known).all()
                assert (ours.true_place == theirs.true_place).all()
                for name in ("age", "seen_at"):
                    assert (getattr(ours, name) == getattr(theirs, name))[ours.known].all()


def test_sightings_are_those_of_a_slow_look_back(data: MatchData) -> None:
    samples = SampleSettings(frames=2, stride=3, ahead_s=1.0)
    said = readings(data, 3)
    said[0][1, 5:9] = 0  # dead, or looking at a wall
    said[1][..., len(OF_SELF) :] *= 0.5  # 0.45: not sure enough
    said[1][:, 4, 2, len(OF_SELF) + 4] = 0.8  # but for one
    moments = Moments.of(data, data.matches, samples, PLAN)
    reader = FrameReaderSightings(data, PLAN, samples, {moments.matches: clips_of(said, samples)})
    for match, each in enumerate(said):
        sightings = reader.sightings(moments.take(np.flatnonzero(moments.match == match)))
        for row in moments.row[moments.match == match]:
            for player in range(PLAYERS):
                assert sightings.own[row, player] == each[player, row // 3, :, 0].argmax()
                for body in range(BODIES):
                    wanted = (-1, -1)
                    for step in range(row // 3 + 1):
                        sure = each[player, step, :, len(OF_SELF) + body]
                        if body != player and sure.max() > 0.5:
                            wanted = (3 * step, int(sure.argmax()))
                    assert (sightings.last[row, player, body], sightings.seen_at[row, player, body]) == wanted
