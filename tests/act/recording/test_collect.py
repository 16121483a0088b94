"""Matches on disk are what was played: the same views, the same truth, complete or not there."""

from __future__ import annotations

import hashlib
import json
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from reelrl.act.doom.match import Match
from reelrl.act.location.frame_reader.labelled_frames import _across
from reelrl.act.recording.collect import describe
from reelrl.act.recording.labels import row_of
from reelrl.act.recording.manifest import NAME, Manifest, MapEntry, MatchEntry, RecordingSettings
from reelrl.act.recording.match_task import RecordingTask, record_match
from reelrl.act.recording.reader import MatchData
from reelrl.act.recording.roaming import RoamingTeam
from reelrl.encode.file.av1_writer import KEY_INTERVAL
from reelrl.errors import ConfigError, ContentError, RunError
from reelrl.parallel import executor
from tests.act.recording.recorded import collect, short

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.act.recording.manifest import Split

pytestmark = pytest.mark.slow

ROWS = 35
HUES = {
    0: (0.3, 1.0, 0.3), 1: (1.0, 0.1, 0.1), 2: (0.1, 0.1, 1.0),  # players; the fourth is white
    4: (2.0, 0.6, 0.6), 5: (0.5, 0.9, 2.0), 6: (0.6, 1.8, 0.5), 7: (2.0, 1.7, 0.3), 8: (1.6, 0.5, 2.0),
}  # fmt: skip
FIRST_ENEMY = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    collect(folder)
    return folder


@pytest.fixture
def own(folder: Path, tmp_path: Path) -> Path:
    """A copy, to be damaged."""
    shutil.copytree(folder, tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two players, whose match repeats itself: what is true of it is always true. Long enough to meet many, as AV1."""
    folder = tmp_path_factory.mktemp("two")
    collect(folder, players=2, seconds=40.0, video="av1")
    return folder


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four players, whose match is another one each time: only laws hold."""
    folder = tmp_path_factory.mktemp("four")
    collect(folder, players=4, seconds=8.0, video="av1")
    return folder


def test_views_and_labels_are_those_of_the_match(folder: Path) -> None:
    """The engines of two players repeat a match, so it can be played again and compared."""
    data = MatchData.open(folder)
    info = data.matches[0]
    recorded = data.match(info.id)
    views = [recorded.frames(player, range(info.frames)) for player in range(2)]
    team = RoamingTeam(data.map(info.map), 2, info.seed)
    match = Match(short().match("haunted_rooms"), info.seed, sightings=True, own_colours=True)
    warm_up = 35
    for number in range(warm_up + info.frames):
        row = row_of(match.facts, match.sightings)
        if number >= warm_up:
            index = number - warm_up
            assert recorded.labels.tic[index] == row.tic
            assert np.array_equal(recorded.labels.position[index], row.position.astype(np.float32))
            for player in range(2):
                assert np.array_equal(views[player][index], match.pictures[player].transpose(1, 2, 0))
        match.step(team.act(row))
    match.close()


def test_the_same_seed_gives_the_same_files_here_and_in_a_worker(folder: Path, tmp_path: Path) -> None:
    with executor(2) as work:
        collect(tmp_path, work=work)
    assert sorted(path.name for path in (tmp_path / "matches").iterdir()) == ["haunted_rooms-0000"]
    assert MatchData.open(tmp_path).matches == MatchData.open(folder).matches


def test_rows_are_skip_tics_apart_and_everybody_is_somewhere(two: Path) -> None:
    data = MatchData.open(two)
    labels = data.match("haunted_rooms-0000").labels
    assert data.rows_per_second == 8.75
    assert set(np.diff(labels.tic)) == {4}
    assert (data.map("haunted_rooms").place_of(labels.position[..., 0], labels.position[..., 1]) >= 0).all()
    assert labels.enemy_alive.any(axis=1).all(), "enemies keep coming"
    assert labels.enemy_alive.shape[1] == 5, "one who comes back is the same one"
    assert labels.alive.mean() > 0.8
    walked = np.linalg.norm(np.diff(labels.position[..., :2], axis=0), axis=-1).sum(axis=0)
    assert (walked > 500).all(), "more than a room's length"


@pytest.mark.parametrize("players", [2, 4])
def test_whoever_is_seen_stands_where_one_looks(two: Path, four: Path, players: int) -> None:
    labels = MatchData.open(two if players == 2 else four).match("haunted_rooms-0000").labels
    here, angle = labels.position[..., :2], labels.angle[..., None]
    for seen, there in ((labels.sees_enemy, labels.enemy_position), (labels.sees_mate, labels.position)):
        way = there[:, None, :, :2] - here[:, :, None]
        distance = np.linalg.norm(way, axis=-1)
        off = (np.degrees(np.arctan2(way[..., 1], way[..., 0])) - angle + 180) % 360 - 180
        # Half of a view of 90 degrees, half of a thing 64 wide, and the tic that a mate is late by.
        limit = 45 + np.degrees(np.arctan2(32 + 16, np.maximum(distance, 1)))
        assert seen.any() or players == 4
        assert (np.abs(off) < limit)[seen & (distance > 64)].all()
    assert not labels.sees_mate[:, range(players), range(players)].any(), "nobody sees itself"
    assert not (labels.sees_enemy & ~labels.enemy_alive[:, None]).any(), "the dead are no enemies"


def test_everybody_is_known_by_colour(two: Path) -> None:
    """Of those who are near and alone on a screen, most have the colour of their number."""
    match = MatchData.open(two).match("haunted_rooms-0000")
    labels = match.labels
    bodies = np.concatenate([labels.position, labels.enemy_position], axis=1)
    sees = np.concatenate([labels.sees_mate, labels.sees_enemy], axis=2)
    right: dict[int, list[bool]] = {}
    for player in range(2):
        rows = np.flatnonzero(labels.alive[:, player] & (sees[:, player].sum(1) == 1))
        for row, picture in zip(rows, match.frames(player, rows), strict=True):
            seen = int(sees[row, player].argmax())
            body = seen if seen < 2 else FIRST_ENEMY + seen - 2
            away = (bodies[row, seen] - labels.position[row, player])[None, None]
            span, depth = _across(away, labels.angle[row, player, None], picture.shape[1])
            west, east = span[0, 0].clip(0, picture.shape[1]).astype(int)
            if not 60 < depth[0, 0] < 250 or east - west < 8:
                continue
            middle = picture[picture.shape[0] * 3 // 8 : picture.shape[0] * 3 // 4, west:east].reshape(-1, 3) / 255
            most = middle[np.argsort(np.ptp(middle, axis=1))[-len(middle) // 8 :]].mean(0)
            known = [each for each in HUES if (each < FIRST_ENEMY) == (body < FIRST_ENEMY)]
            likeness = [most @ np.array(HUES[each]) / np.linalg.norm(HUES[each]) for each in known]
            right.setdefault(body, []).append(known[int(np.argmax(likeness))] == body)
    often = {body: np.mean(found) for body, found in right.items() if len(found) >= 8}
    assert len(often) >= 3
    assert min(often.values()) > 0.8, often


def test_the_summary_counts_what_the_labels_say(two: Path) -> None:
    data = MatchData.open(two)
    plan, labels = data.map("haunted_rooms"), data.match("haunted_rooms-0000").labels
    told = describe(plan, [labels])
    shares = [int(part.split()[-1].rstrip("%")) for part in told["players by place"].split(", ")]
    assert len(shares) == 9
    assert abs(sum(shares) - 100) <= 5
    places = plan.place_of(labels.position[..., 0], labels.position[..., 1])
    assert shares[4] == pytest.approx(100 * (places[labels.alive] == 4).mean(), abs=0.6)
    assert told["alive"] == f"{labels.alive.mean():.0%}"


def test_a_clip_is_decoded_from_the_nearest_key_frame(two: Path) -> None:
    data = MatchData.open(two)
    match = data.match("haunted_rooms-0000")
    video = data.videos.open(match.folder / "player_1.mp4")
    for end in (200, 31, 100, 8):
        before = video.decoded
        assert match.frames(1, [end - 8, end - 4, end]).shape == (3, 192, 256, 3)
        assert video.decoded - before <= KEY_INTERVAL + 8


@pytest.mark.long
def test_only_what_is_missing_is_added_and_the_split_stays(own: Path) -> None:
    before = (own / "matches/haunted_rooms-0000/labels.npz").stat()
    assert [each.entry.id for each in collect(own, 2)] == ["haunted_rooms-0001"]
    assert [each.entry.split for each in collect(own, 1, "cloister")] == ["retrieval"]
    assert collect(own, 2) == []
    assert (own / "matches/haunted_rooms-0000/labels.npz").stat() == before
    data = MatchData.open(own)
    assert [match.id for match in data.matches] == ["haunted_rooms-0000", "haunted_rooms-0001", "cloister-0000"]
    assert "court" in data.map("cloister").places


def test_splits_are_near_their_shares_and_never_move() -> None:
    manifest = Manifest(RecordingSettings())
    splits = [manifest.split_of("first", number) for number in range(200)]
    assert [splits.count(name) / 200 for name in ("train", "val", "test")] == [0.7, 0.15, 0.15]
    assert set(splits[:6]) == {"train", "val", "test"}, "six matches are enough to try everything"


def test_the_map_of_the_first_match_gives_the_labels_whatever_was_measured_before_or_removed_since() -> None:
    def entry(map_name: str, split: Split) -> MatchEntry:
        return MatchEntry(f"{map_name}-0000", map_name, split, 0, 1, {})

    manifest = Manifest(RecordingSettings(), maps={"never_played": MapEntry("never_played", {})})
    assert manifest.split_of("first", 0) == "train"
    manifest.matches = [entry("first", "train")]
    assert [manifest.split_of(name, 0) for name in ("first", "never_played")] == ["train", "retrieval"]
    manifest.matches = [entry("second", "retrieval")]
    assert [manifest.split_of(name, 0) for name in ("first", "second")] == ["train", "retrieval"]


def test_what_a_killed_collection_left_is_cleared_away_and_nothing_else(own: Path) -> None:
    (own / "matches/.unfinished-haunted_rooms-0001-ab").mkdir()
    (own / "matches/holiday").mkdir()
    shutil.copytree(own / "matches/haunted_rooms-0000", own / "matches/haunted_rooms-0001")
    assert collect(own, 1) == []
    assert sorted(path.name for path in (own / "matches").iterdir()) == ["haunted_rooms-0000", "holiday"]


def test_matches_that_lost_their_manifest_are_left_alone(own: Path) -> None:
    (own / NAME).unlink()
    with pytest.raises(ConfigError, match=r"holds other things \(matches\) and no manifest.json"):
        collect(own, 1)
    assert (own / "matches/haunted_rooms-0000/labels.npz").exists()


def test_a_match_whose_folder_was_removed_is_played_again(own: Path) -> None:
    shutil.rmtree(own / "matches/haunted_rooms-0000")
    assert [each.entry.id for each in collect(own, 1)] == ["haunted_rooms-0000"]
    assert len(list(MatchData.open(own).check())) == 5


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"skip": 2}, "skip 4, not 2"),
        ({"video": "av1"}, "video lossless, not av1"),
        ({"players": 3, "seed": 5}, "players 2, not 3; seed 0, not 5"),
    ],
)
def test_a_folder_keeps_to_its_settings(own: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        collect(own, 2, **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"players": 0}, "players is 0"),
        ({"players": 9}, "num_players is 9"),
        ({"skip": 0}, "skip is 0"),
        ({"seconds": 0.01}, "seconds is 0.01"),
        ({"seconds": float("nan")}, "seconds is nan"),
        ({"video": "h264"}, "video is 'h264'; choose from av1, lossless"),
        ({"resolution": "RES_160X121"}, "did you mean"),
        ({"resolution": "RES_200X125", "video": "av1"}, "odd side"),
    ],
)
def test_settings_that_cannot_be_are_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        collect(tmp_path, **changes)


def test_another_version_of_the_engine_plays_no_match(folder: Path, tmp_path: Path) -> None:
    plan = MatchData.open(folder).map("haunted_rooms")
    task = RecordingTask("haunted_rooms-0000", 0, "haunted_rooms", plan, short(), 0, tmp_path, engine="0.9")
    with pytest.raises(ConfigError, match=r"ViZDoom is .* on this machine and 0\.9 where the matches are collected"):
        record_match(task)


def test_a_map_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ContentError, match="did you mean 'cloister'"):
        collect(tmp_path, 1, "cloistre")


def test_a_folder_of_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"holds other things \(notes.txt\)"):
        collect(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_folder_has_one_writer(own: Path) -> None:
    from reelrl.act.recording.collect import Collection

    first = Collection(own, short())
    with pytest.raises(RunError, match="is being written by this process"):
        Collection(own, short())
    first.close()


def test_every_byte_is_checked(own: Path) -> None:
    data = MatchData.open(own)
    assert len(list(data.check())) == 5
    video = own / "matches/haunted_rooms-0000/player_1.mkv"
    changed = bytearray(video.read_bytes())
    changed[len(changed) // 2] ^= 1
    video.write_bytes(changed)
    with pytest.raises(ContentError, match=r"player_1.mkv is not the file that was written"):
        list(MatchData.open(own).check())


@pytest.mark.parametrize("name", ["matches/haunted_rooms-0000/player_0.mkv", "matches/haunted_rooms-0000/labels.npz"])
def test_a_cut_file_is_noticed_when_the_folder_is_opened(own: Path, name: str) -> None:
    file = own / name
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ContentError, match=rf"{file.name} has \d+ bytes, the manifest says \d+; copy it again"):
        MatchData.open(own)
    file.unlink()
    with pytest.raises(ContentError, match="no such file"):
        list(MatchData.open(own).check())  # a match may lack its labels, and is opened then; a check tells


def test_changed_labels_are_not_read(own: Path) -> None:
    file = own / "matches/haunted_rooms-0000/labels.npz"
    data = bytearray(file.read_bytes())
    data[200] ^= 255
    file.write_bytes(data)
    with pytest.raises(ContentError, match="checksum differs"):
        _ = MatchData.open(own).match("haunted_rooms-0000").labels


def test_labels_that_are_none_are_refused_though_their_checksum_is_right(own: Path) -> None:
    name = "matches/haunted_rooms-0000/labels.npz"
    (own / name).write_bytes(b"nothing")
    manifest = json.loads((own / NAME).read_text())
    manifest["matches"][0]["files"][name] = {"sha256": hashlib.sha256(b"nothing").hexdigest(), "bytes": 7}
    (own / NAME).write_text(json.dumps(manifest))
    with pytest.raises(ContentError, match=r"labels.npz are no labels of a match"):
        _ = MatchData.open(own).match("haunted_rooms-0000").labels


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "manifest.json is damaged"),
        ('{"schema": 2', "manifest.json is damaged"),
        ('{"schema": 3}', "has schema 3, this reelrl reads 2; update reelrl"),
        ('{"schema": 1}', "has schema 1, this reelrl reads 2; reel collect doom --convert "),
        ("[]", "has schema None"),
        ('{"schema": 2}', "not as reelrl writes it"),
        ('{"schema": 2, "settings": {"playerz": 3}, "maps": {}, "matches": [], "made_by": ""}', "not as reelrl writes"),
    ],
)
def test_a_manifest_that_cannot_be_read_says_why(own: Path, text: str, words: str) -> None:
    (own / NAME).write_text(text)
    with pytest.raises(ContentError, match=words):
        MatchData.open(own)


def test_a_folder_without_matches_says_how_to_make_some(tmp_path: Path) -> None:
    with pytest.raises(ContentError, match=r"holds no matches.*reel collect doom --matches 80 -o"):
        MatchData.open(tmp_path)


def test_what_is_not_there_is_named_with_what_is(folder: Path) -> None:
    data = MatchData.open(folder)
    with pytest.raises(ConfigError, match="did you mean 'haunted_rooms-0000'"):
        data.match("haunted_rooms-0009")
    with pytest.raises(ConfigError, match="no map 'cloister'; choose from haunted_rooms"):
        data.map("cloister")
    with pytest.raises(ConfigError, match="has players 0 to 1"):
        data.match("haunted_rooms-0000").frames(2, [0])
    with pytest.raises(ConfigError, match=f"has frames 0 to {ROWS - 1}"):
        data.match("haunted_rooms-0000").frames(1, [ROWS])
