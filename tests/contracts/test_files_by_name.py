"""Whatever lies at a name that we look for, nothing outside its folder is read or written, and nobody waits for it."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from reelrl.act.recording.labels import Labels
from reelrl.act.recording.manifest import FileFacts, Manifest, MapEntry, MatchEntry, RecordingSettings
from reelrl.act.recording.reader import MatchData
from reelrl.act.recording.xego_layout import read_offsets, read_splits, read_track
from reelrl.content.catalogue import _entries_in
from reelrl.content.read.random_access import RandomAccessVideo
from reelrl.content.read.video import VideoReader
from reelrl.content.write.lossless import LosslessWriter
from reelrl.encode.handshake.folder import ENCODER, HandshakeFolder
from reelrl.encode.handshake.messages import feedback_message, request_message
from reelrl.errors import ContentError, ReelError
from reelrl.report.demo_part import DemoOptions, DemoPart, finished_part, made_part
from reelrl.runs import checkpoint_file, checkpoints, hub, model_card, policy_file
from reelrl.runs.folder import Run, RunFolder
from reelrl.runs.records import Log, read_records
from reelrl.see.embeddings.file import read_embeddings
from reelrl.storage.cache import load, store
from reelrl.storage.locks import FolderLock, is_locked
from reelrl.storage.regular_files import inside, own_path
from reelrl.stream.controllers.learned import Learned
from tests.encode.handshake.test_messages import FEEDBACK, REQUEST
from tests.settings.test_config import Training
from tests.waiting import HANG_S

SECRET = b"nobody reads or writes this\n"


@dataclass(frozen=True)
class Use:
    """One way in which the package touches a file: `name` below a folder that `make` filled."""

    name: str
    act: Callable[[Path], Any]
    make: Callable[[Path], Any] = lambda _folder: None
    may_link: bool = False
    """Users name this one themselves, or data sets are made of links."""

    def __str__(self) -> str:
        return f"{self.name}"


@pytest.fixture(autouse=True)
def deadline() -> Iterator[None]:
    """Waiting for a pipe, or reading what never ends, fails instead of lasting."""

    def end(*_: object) -> None:
        raise AssertionError("it waits for something that does not come")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, HANG_S)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def make_run(folder: Path) -> None:
    with Run.create(folder, Training(), stage="test", name="x", tensorboard=False) as run:
        run.log_episode({"reward": 1.0})
        run.checkpoint(1, {"w": np.ones(3)}, {"n": 1})


def make_policy(folder: Path) -> None:
    with Run.create(folder, Training(), stage="abr", name="x", tensorboard=False) as run:
        run.new_artifact("policy.safetensors").write_bytes(b"weights")


def make_matches(folder: Path) -> None:
    settings = RecordingSettings(players=1, video="lossless")
    files = {}
    (folder / "matches" / "m-0000").mkdir(parents=True)
    (folder / "maps").mkdir()
    with LosslessWriter(folder / "matches/m-0000/player_0.mkv", 16, 16, Fraction(10)) as writer:
        writer.write(np.zeros((16, 16, 3), np.uint8))
    (folder / "matches/m-0000/labels.npz").write_bytes(b"PK")
    (folder / "maps/m.json").write_text(json.dumps({"name": "m", "places": [], "walls": []}))
    for name in ("matches/m-0000/player_0.mkv", "matches/m-0000/labels.npz"):
        files[name] = FileFacts.of(folder / name)
    plan = {"maps/m.json": FileFacts.of(folder / "maps/m.json")}
    Manifest(settings, {"m": MapEntry("m", plan)}, [MatchEntry("m-0000", "m", "train", 0, 1, files)]).write(folder)


def make_demo(folder: Path) -> None:
    made_part("see", folder, DemoOptions(), lambda *_: DemoPart("", "", [], {}, []))


def make_clips(folder: Path) -> None:
    clip = {"file": "a.mkv", "name": "a", "source": "s", "width": 16, "height": 16, "fps": "30", "frames": 1}
    (folder / "MANIFEST.json").write_text(json.dumps({"clips": [clip]}))


def data_in(folder: Path) -> MatchData:
    return MatchData(folder, Manifest.read(folder))


MADE = (
    "0001-x/meta.json",
    "0001-x/config.yaml",
    "0001-x/episodes.jsonl",
    "0001-x/checkpoints/00001-step-1/state.json",
    "0001-x/checkpoints/00001-step-1/tensors.safetensors",
    "manifest.json",
    "maps/m.json",
    "matches/m-0000/player_0.mkv",
    "MANIFEST.json",
)
CHECKPOINT, RUN = "0001-x/checkpoints/00001-step-1", "0001-x"
READERS = [
    Use("mg0000_rq.json", lambda f: refuse_none(HandshakeFolder(f).read(0, "rq"))),
    Use("mg0000_qp.json", lambda f: refuse_none(HandshakeFolder(f).read(0, "qp"))),
    Use("mg0000_fb.json", lambda f: refuse_none(HandshakeFolder(f).read(0, "fb"))),
    Use(f"{RUN}/meta.json", lambda f: RunFolder(f / RUN).meta, make_run),
    Use(f"{RUN}/config.yaml", lambda f: RunFolder(f / RUN).stage, make_run),
    Use(f"{RUN}/episodes.jsonl", lambda f: list(RunFolder(f / RUN).episodes()), make_run),
    Use(f"{RUN}/metrics.jsonl", lambda f: list(RunFolder(f / RUN).metrics()), make_run),
    *(Use(f"{CHECKPOINT}/{name}", lambda f: checkpoints.load(f / CHECKPOINT), make_run)
      for name in (*checkpoints.FILES, checkpoints.MANIFEST)),
    Use(f"{RUN}/artifacts/a.bin", lambda f: policy_file.load(RunFolder(f / RUN).artifact("a.bin")), make_run),
    Use(f"{RUN}/artifacts/policy.safetensors", lambda f: Learned(f / RUN), make_run),
    Use("cached", lambda f: refuse_none(load(f / "cached"))),
    Use("parts/see.json", lambda f: refuse_none(finished_part("see", f, DemoOptions())), make_demo),
    Use("manifest.json", Manifest.read, make_matches),
    Use("maps/m.json", lambda f: data_in(f).map("m"), make_matches),
    Use("matches/m-0000/labels.npz", lambda f: data_in(f).match("m-0000").labels, make_matches),
    Use("labels.npz", lambda f: Labels.read(f / "labels.npz")),
    Use("matches/m-0000/player_0.mkv", lambda f: data_in(f).match("m-0000").frames(0, [0]), make_matches),
    Use("matches/m-0000/player_0.mkv", lambda f: MatchData.open(f), make_matches),
    Use("MANIFEST.json", lambda f: list(_entries_in(f)), make_clips),
    Use("a.mkv", lambda f: [list(entry.clip) for entry in _entries_in(f)], make_clips),
    Use("time_offset.json", read_offsets, may_link=True),
    Use("round_1.csv", lambda f: read_track(f / "round_1.csv"), may_link=True),
    Use("match_round_partitioned.csv", read_splits, may_link=True),
    Use("film.mp4", lambda f: RandomAccessVideo(f / "film.mp4"), may_link=True),
    Use("film.y4m", lambda f: VideoReader(f / "film.y4m"), may_link=True),
    Use("policy.safetensors", lambda f: policy_file.load(f / "policy.safetensors"), may_link=True),
    Use("epoch.pt", lambda f: checkpoint_file.load(f / "epoch.pt"), may_link=True),
    Use("seen.emb", lambda f: read_embeddings(f / "seen.emb"), may_link=True),
]  # fmt: skip

WRITERS = [
    Use("mg0003_rq.json", lambda f: HandshakeFolder(f).write(3, "rq", request_message(REQUEST))),
    Use("mg0003_qp.json", lambda f: HandshakeFolder(f).write(3, "qp", {"qp": 30})),
    Use("mg0003_fb.json", lambda f: HandshakeFolder(f).write(3, "fb", feedback_message(FEEDBACK))),
    Use(".encoder.lock", lambda f: HandshakeFolder(f).lock(ENCODER).release()),
    Use(".lock", lambda f: FolderLock(f).release()),
    Use(f"{RUN}/.lock", lambda f: Run.open(f / RUN).close(), make_run),
    Use(f"{RUN}/episodes.jsonl", lambda f: log_into(f / RUN), make_run),
    Use(f"{RUN}/metrics.jsonl", lambda f: log_into(f / RUN), make_run),
    Use("log.jsonl", lambda f: Log(f / "log.jsonl").append({"a": 1})),
    Use(f"{RUN}/artifacts/a.bin", lambda f: artifact_into(f / RUN), make_run),
    Use("cached", lambda f: store(f / "cached", b"result")),
    Use("manifest.json", lambda f: Manifest(RecordingSettings()).write(f)),
    *(Use(name, lambda f: model_card.write(f, RunFolder(f / RUN), "a/b"), make_policy)
      for name in (hub.WEIGHTS, hub.CARD)),
]  # fmt: skip


def refuse_none(found: Any) -> None:
    """A reader that answers None has used nothing of what lies there."""
    if found is None:
        raise ContentError("not used")


def log_into(folder: Path) -> None:
    with Run.open(folder, tensorboard=False) as run:
        run.log_episode({"reward": 2.0})
        run.log_metrics(1, {"loss": 1.0})


def artifact_into(folder: Path) -> None:
    with Run.open(folder, tensorboard=False) as run:
        run.new_artifact("a.bin").write_bytes(b"ours")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "elsewhere" / "secret"
    path.parent.mkdir()
    path.write_bytes(SECRET)
    return path


@cache
def template(make: Callable[[Path], Any]) -> Path:
    """What `make` makes, made once."""
    folder = Path(tempfile.mkdtemp(prefix="reelrl-test-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    make(folder)
    return folder


def prepared(use: Use, tmp_path: Path) -> tuple[Path, Path]:
    """A filled folder, and the name in it at which there is nothing yet."""
    folder = shutil.copytree(template(use.make), tmp_path / "folder")
    path = folder / use.name
    path.unlink(missing_ok=True)
    return folder, path


def trap(kind: str, path: Path, secret: Path) -> None:
    if kind == "link":
        path.symlink_to(secret)
    elif kind == "link to /dev/zero":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "a terabyte":
        path.touch()
        os.truncate(path, 1 << 40)


TRAPS = ["link to /dev/zero", "pipe", "folder", "a terabyte"]


@pytest.mark.parametrize(
    ("use", "kind"), [(use, kind) for use in READERS for kind in ([] if use.may_link else ["link"]) + TRAPS], ids=str
)
def test_only_regular_files_of_a_sane_size_are_read(use: Use, kind: str, tmp_path: Path, secret: Path) -> None:
    folder, path = prepared(use, tmp_path)
    trap(kind, path, secret)
    with pytest.raises(ReelError) as refusal:
        use.act(folder)
    assert "nobody reads" not in str(refusal.value)


@pytest.mark.parametrize("use", [use for use in READERS if use.name in MADE], ids=str)
def test_a_link_to_the_very_file_that_belongs_there_is_still_refused(use: Use, tmp_path: Path) -> None:
    folder = shutil.copytree(template(use.make), tmp_path / "folder")
    path = folder / use.name
    moved = path.rename(tmp_path / "moved")
    path.symlink_to(moved)
    with pytest.raises(ReelError):
        use.act(folder)


@pytest.mark.parametrize("kind", ["link", "link to nothing", "link to /dev/zero", "pipe", "folder", "hard link"])
@pytest.mark.parametrize("use", WRITERS, ids=str)
def test_nothing_outside_the_folder_is_written(use: Use, kind: str, tmp_path: Path, secret: Path) -> None:
    folder, path = prepared(use, tmp_path)
    if kind == "hard link":
        path.hardlink_to(secret)
    elif kind == "link to nothing":
        path.symlink_to(secret.with_name("new"))
    else:
        trap(kind, path, secret)
    with suppress(ReelError, RuntimeWarning, IsADirectoryError if "artifacts" in use.name else ReelError):
        use.act(folder)
        assert path.is_file()
        assert not path.is_symlink()
    assert secret.read_bytes() == SECRET
    assert [each.name for each in secret.parent.iterdir()] == ["secret"]


@pytest.mark.parametrize("kind", ["link", "link to /dev/zero", "pipe", "folder"])
def test_asking_for_a_lock_opens_nothing_strange(kind: str, tmp_path: Path, secret: Path) -> None:
    trap(kind, tmp_path / ".lock", secret)
    assert not is_locked(tmp_path)


@pytest.mark.parametrize("name", ["tb", "checkpoints", "artifacts"])
def test_a_run_does_not_write_through_a_folder_that_is_a_link(name: str, tmp_path: Path, secret: Path) -> None:
    make_run(tmp_path)
    folder = tmp_path / RUN / name
    folder.rename(tmp_path / "moved")
    folder.symlink_to(secret.parent)
    with pytest.raises(ReelError, match=f"{name} is a link to .*; put the folder itself there"):
        Run.open(tmp_path / RUN)


def test_a_checkpoint_that_is_a_link_is_not_loaded_and_pruning_removes_the_link_alone(tmp_path: Path) -> None:
    make_run(tmp_path)
    kept_here = checkpoints.Checkpoints(tmp_path / RUN / "checkpoints", keep=1)
    moved = (tmp_path / CHECKPOINT).rename(tmp_path / "moved")
    (tmp_path / CHECKPOINT).symlink_to(moved)
    with pytest.raises(ReelError, match="is a link to"):
        checkpoints.load(tmp_path / CHECKPOINT)
    kept_here.save(2, {"w": np.ones(3)}, {})
    assert [path.name for path in kept_here.folder.iterdir()] == ["00002-step-2"]
    assert len(list(moved.iterdir())) == 4


@pytest.mark.parametrize(
    "name", ["../elsewhere/secret", "/etc/passwd", "a/../../elsewhere/secret", "out/secret", "", "a\0b", 7]
)
def test_names_in_files_lead_nowhere_else(name: object, tmp_path: Path, secret: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "a").mkdir(parents=True)
    (folder / "out").symlink_to(secret.parent)
    with pytest.raises(ContentError, match=r"outside of it; copy|names are text"):
        inside(folder, name)


def test_names_within_a_folder_are_found_also_where_the_folder_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "real" / "a").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert inside(tmp_path / "link", "a/b.mkv") == tmp_path / "link" / "a" / "b.mkv"


@pytest.mark.parametrize(
    "change", [{"files": "../elsewhere/secret"}, {"id": "../../elsewhere"}, {"map": "../../elsewhere/secret"}]
)
def test_a_manifest_of_matches_leads_nowhere_else(change: dict[str, str], tmp_path: Path, secret: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    make_matches(folder)
    told = json.loads((folder / "manifest.json").read_text())
    if "files" in change:
        told["matches"][0]["files"][change["files"]] = {"sha256": "0" * 64, "bytes": len(SECRET)}
    elif "id" in change:
        told["matches"][0]["id"] = change["id"]
    else:
        told["maps"] = {change["map"]: told["maps"]["m"]}
    (folder / "manifest.json").write_text(json.dumps(told))
    with pytest.raises(ContentError, match="outside of it"):
        list(MatchData.open(folder).check())


def test_a_manifest_of_clips_leads_nowhere_else(tmp_path: Path, secret: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    make_clips(folder)
    told = json.loads((folder / "MANIFEST.json").read_text())
    told["clips"][0]["file"] = "../elsewhere/secret"
    (folder / "MANIFEST.json").write_text(json.dumps(told))
    with pytest.raises(ContentError, match="outside of it"):
        list(_entries_in(folder))


def test_a_playlist_in_place_of_a_video_leads_nowhere_else(tmp_path: Path) -> None:
    film = tmp_path / "film.ts"
    with av.open(str(film), "w", format="mpegts") as file:
        stream = file.add_stream("libx264", rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        for frame in (av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8), format="rgb24"), None):
            file.mux(stream.encode(frame))
    playlist = tmp_path / "film.m3u8"
    playlist.write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:0.1,\n{film}\n#EXT-X-ENDLIST\n")
    for reader in (VideoReader, RandomAccessVideo):
        with pytest.raises(ContentError, match="is a playlist, which names files elsewhere"):
            reader(playlist)


def test_a_log_line_without_an_end_is_refused_or_skipped(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"a":1}\n{"a":')
    assert list(read_records(path)) == [{"a": 1}]


def test_a_name_is_freed_of_links_and_pipes_and_of_nothing_else(tmp_path: Path, secret: Path) -> None:
    (tmp_path / "link").symlink_to(secret)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("x")
    for name in ("link", "pipe", "file", "absent"):
        own_path(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["file"]
    assert not (tmp_path / "pipe").exists()
    own_path("/dev/null")
    assert Path("/dev/null").is_char_device()
