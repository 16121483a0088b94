"""The three files of the handshake: what is accepted, what is refused, and how the folder is read."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reelrl.encode.handshake.folder import ENCODER, TRAINER, HandshakeFolder, pause_s
from reelrl.encode.handshake.messages import (
    MESSAGES,
    checked,
    decided_qp,
    feedback_message,
    file_name,
    json_schema,
    read_feedback,
    read_request,
    request_message,
)
from reelrl.encode.minigop.protocols import MiniGopFeedback, MiniGopRequest
from reelrl.errors import ContentError, HandshakeError, RunError
from reelrl.storage.folder_events import FolderEvents
from tests.waiting import HANG_S, until

DOCS = Path(__file__).parents[3] / "docs"
REQUEST = MiniGopRequest(
    mg=3,
    gop=0,
    first_frame=33,
    frames=16,
    base_qp=38,
    layer_qps=(40, 36),
    bits_left=1e5,
    frames_left=60,
    features={"intra": 2.0},
)
FEEDBACK = MiniGopFeedback(mg=3, qp=36, bits=9000, psnr_y=38.5, gop_end=True, frames=16, delta=-2.0, sse_y=77)

qps = st.integers(1, 63)
requests = st.builds(
    MiniGopRequest,
    mg=st.integers(0, 20_000),
    gop=st.integers(0, 99),
    first_frame=st.integers(0, 10**6),
    frames=st.integers(1, 64),
    base_qp=qps,
    layer_qps=st.lists(qps, max_size=64).map(tuple),
    bits_left=st.floats(-1e12, 1e12),
    frames_left=st.integers(1, 10**6),
    features=st.dictionaries(st.text(max_size=8), st.floats(-1e9, 1e9)),
)


@pytest.mark.slow
@given(requests)
def test_a_request_comes_back_as_it_was(request: MiniGopRequest) -> None:
    text = json.dumps(request_message(request, session="s"))
    assert read_request(checked(json.loads(text), MESSAGES["rq"], "file"), 0) == request


@given(qps, st.floats(-100, 100))
def test_a_decision_is_a_whole_qp_in_range(base_qp: int, delta: float) -> None:
    qp = decided_qp(base_qp, delta)
    assert 1 <= qp <= 63
    assert abs(qp - min(max(base_qp + delta, 1), 63)) <= 0.5


def test_a_feedback_comes_back_as_it_was() -> None:
    message = checked(json.loads(json.dumps(feedback_message(FEEDBACK))), MESSAGES["fb"], "file")
    assert read_feedback(message, -2.0, 100) == FEEDBACK


def test_an_error_sum_that_is_not_told_fits_the_psnr() -> None:
    message = {name: value for name, value in feedback_message(FEEDBACK).items() if name != "sse_y"}
    feedback = read_feedback(checked(message, MESSAGES["fb"], "file"), 0.0, 1000)
    assert feedback.sse_y == round(1000 * 16 * 255**2 / 10**3.85)


def test_unknown_fields_pass_through() -> None:
    message = checked({"qp": 30, "why": {"because": [1, 2]}}, MESSAGES["qp"], "file")
    assert message == {"qp": 30, "why": {"because": [1, 2]}}


@pytest.mark.parametrize(
    ("kind", "change", "reason"),
    [
        ("qp", {"qp": 64}, r"file: qp = 64; use 1 to 63"),
        ("qp", {"qp": 0}, r"qp = 0; use 1 to 63"),
        ("qp", {"qp": 30.5}, r"qp = 30\.5; write a whole number"),
        ("qp", {"qp": "30"}, r'qp = "30"; write a finite number'),
        ("qp", {"qp": True}, r"qp = true; write a finite number"),
        ("qp", {"schema": 2}, r"is of schema 2, this reelrl knows 1; update reelrl"),
        ("qp", {"session": 7}, r"session = 7; write a string"),
        ("rq", {"layer_qps": 38}, r"layer_qps = 38; write a list"),
        ("rq", {"layer_qps": [38, "a"]}, r'layer_qps = "a"'),
        ("rq", {"features": [1]}, r"features = \[1\]; write an object"),
        ("rq", {"features": {"intra": None}}, r"features\.intra = null"),
        ("rq", {"frames_left": 0}, r"frames_left = 0; use 1 or more"),
        ("fb", {"gop_end": 2}, r"gop_end = 2; write 0 or 1"),
        ("fb", {"psnr_y": float("inf")}, r"psnr_y = Infinity; write a finite number"),
    ],
)
def test_a_wrong_field_is_named_with_its_value(kind: str, change: dict[str, Any], reason: str) -> None:
    good = {"rq": request_message(REQUEST), "qp": {"qp": 30}, "fb": feedback_message(FEEDBACK)}[kind]
    with pytest.raises(HandshakeError, match=reason):
        checked(good | change, MESSAGES[kind], "file")


@pytest.mark.parametrize("kind", ["rq", "fb"])
def test_each_needed_field_is_missed(kind: str) -> None:
    good = {"rq": request_message(REQUEST), "fb": feedback_message(FEEDBACK)}[kind]
    for name in [name for name, field in MESSAGES[kind].items() if field.needed]:
        rest = {key: value for key, value in good.items() if key != name}
        with pytest.raises(HandshakeError, match=f"file lacks {name} "):
            checked(rest, MESSAGES[kind], "file")


def test_whole_numbers_may_be_written_as_floats_and_flags_as_booleans() -> None:
    message = checked(feedback_message(FEEDBACK) | {"bits": 9000.0, "gop_end": False}, MESSAGES["fb"], "file")
    assert (message["bits"], message["gop_end"]) == (9000, 0)
    assert isinstance(message["bits"], int)


@pytest.mark.parametrize(("kind", "title"), [("rq", "request"), ("qp", "decision"), ("fb", "feedback")])
def test_the_documented_schema_is_the_one_in_force(kind: str, title: str) -> None:
    documented = json.loads((DOCS / "handshake" / f"{title}.schema.json").read_text())
    assert documented == json_schema(kind)


def test_the_examples_of_the_guide_keep_to_the_schema() -> None:
    text = (DOCS / "how-to" / "steer-your-own-encoder.md").read_text()
    for kind in MESSAGES:
        example = text.split(f"`mg0007_{kind}.json`\n```json\n")[1].split("```")[0]
        checked(json.loads(example), MESSAGES[kind], f"example {kind}")


# -- the folder --------------------------------------------------------------------------------------------------


def test_names_of_files() -> None:
    assert [file_name(7, "rq"), file_name(12345, "fb")] == ["mg0007_rq.json", "mg12345_fb.json"]


def test_half_a_message_is_waited_for(tmp_path: Path) -> None:
    folder, path = HandshakeFolder(tmp_path), tmp_path / "mg0000_qp.json"
    for part in ("", "{", '{"qp"', '{"qp": 3', '{"qp": 31'):
        path.write_text(part)
        assert folder.read(0, "qp") is None
    path.write_text('{"qp": 31}')
    assert folder.read(0, "qp") == {"qp": 31}


def test_half_a_message_that_stays_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mg0000_qp.json").write_text('{"qp": 3')
    with pytest.raises(HandshakeError, match=r"mg0000_qp\.json is no whole JSON .*'\{\"qp\": 3'; write it anew"):
        HandshakeFolder(tmp_path, settle_s=0.05).wait(0, "qp", HANG_S)
    with pytest.raises(HandshakeError, match="no whole JSON"):
        HandshakeFolder(tmp_path, settle_s=60).read(0, "qp", final=True)


def test_a_file_that_speaks_of_another_mini_gop_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mg0002_qp.json").write_text('{"qp": 30, "mg": 1}')
    with pytest.raises(HandshakeError, match=r"mg0002_qp\.json speaks of mini-GOP 1"):
        HandshakeFolder(tmp_path).read(2, "qp")


def test_clearing_spares_what_is_not_of_the_handshake(tmp_path: Path) -> None:
    ours = ["mg0000_rq.json", "mg0001_qp.json", "mg12345_fb.json", ".mg0001_qp.tmp-1-ab.json", "mg0001_rq.json.tmp"]
    theirs = ["out.ivf", "mg.json", "mg0001_notes.txt", "img0001_rq.json", "mg0001_rqs.json"]
    for name in ours + theirs:
        (tmp_path / name).touch()
    HandshakeFolder(tmp_path).clear()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(theirs)


def test_a_reader_never_sees_half_of_what_we_write(tmp_path: Path) -> None:
    folder, over = HandshakeFolder(tmp_path), threading.Event()
    message = request_message(REQUEST, note="x" * 20_000)

    def write() -> None:
        while not over.is_set():
            folder.write(3, "rq", message)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        reader = HandshakeFolder(tmp_path)
        reader.wait(3, "rq", HANG_S)
        seen = [reader.read(3, "rq", final=True) for _ in range(300)]
    finally:
        over.set()
        writer.join()
    assert all(found == message for found in seen)


def test_what_we_could_not_read_we_do_not_write(tmp_path: Path) -> None:
    with pytest.raises(HandshakeError, match="qp = 70"):
        HandshakeFolder(tmp_path).write(0, "qp", {"qp": 70})
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_went_away_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(ContentError, match="no such file or folder"):
        HandshakeFolder(tmp_path / "gone").write(0, "qp", {"qp": 30})


def test_a_side_is_taken_once_and_free_again_when_its_holder_is_gone(tmp_path: Path) -> None:
    folder = HandshakeFolder(tmp_path)
    assert not folder.someone_is(TRAINER)
    lock = folder.lock(TRAINER)
    assert folder.someone_is(TRAINER)
    assert not folder.someone_is(ENCODER)
    with pytest.raises(RunError, match=rf"written by this process \({os.getpid()}\); give each encode a folder"):
        folder.lock(TRAINER)
    lock.release()
    assert not folder.someone_is(TRAINER)


def test_asking_who_is_there_turns_nobody_away(tmp_path: Path) -> None:
    folder, over = HandshakeFolder(tmp_path), threading.Event()
    folder.lock(ENCODER).release()

    def look() -> None:
        while not over.is_set():
            folder.someone_is(ENCODER)

    looker = threading.Thread(target=look)
    looker.start()
    try:
        for _ in range(100):
            folder.lock(ENCODER).release()
    finally:
        over.set()
        looker.join()


# -- waiting -----------------------------------------------------------------------------------------------------


class Counted(HandshakeFolder):
    """Knows how often it was looked into."""

    looks = 0

    def read(self, mg: int, kind: str, *, final: bool = False) -> dict[str, Any] | None:
        self.looks += 1
        return super().read(mg, kind, final=final)


@pytest.fixture(params=["events", "no events"])
def with_or_without_events(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """On another system, or with no watches left, there are no events."""
    if request.param == "no events":
        monkeypatch.setattr("reelrl.storage.folder_events._watch", lambda _folder: -1)
    return bool(request.param == "events")


@pytest.mark.slow
def test_waiting_takes_less_than_a_twentieth_of_a_core(tmp_path: Path, with_or_without_events: bool) -> None:
    folder = Counted(tmp_path)
    cpu_s, start_s = time.thread_time(), time.monotonic()
    assert folder.wait(0, "qp", 3.0) is None
    waited_s = time.monotonic() - start_s
    # Ten looks a second, and those before the pauses have grown so long.
    assert folder.looks <= 10 * waited_s + (15 if with_or_without_events else 70)
    assert time.thread_time() - cpu_s < waited_s / 20


@pytest.mark.usefixtures("with_or_without_events")
def test_patience_ends_when_it_is_said_to(tmp_path: Path) -> None:
    folder = HandshakeFolder(tmp_path)
    for deadline_s in (0.0, 0.001, 0.3):
        start_s = time.monotonic()
        assert folder.wait(0, "qp", deadline_s) is None
        assert time.monotonic() - start_s >= deadline_s
    assert folder.wait(0, "qp", HANG_S, lambda waited_s: waited_s > 0.05) is None


@pytest.mark.parametrize("way", ["rename", "plain", "append"])
@pytest.mark.usefixtures("with_or_without_events")
def test_a_message_is_met_however_it_is_written(tmp_path: Path, way: str) -> None:
    folder = Counted(tmp_path)

    def write() -> None:
        until(lambda: folder.looks > 3)
        if way == "rename":
            HandshakeFolder(tmp_path).write(0, "qp", {"qp": 30})
        else:
            with (tmp_path / "mg0000_qp.json").open("a" if way == "append" else "w") as file:
                file.write('{"qp": ')
                file.flush()
                looks = folder.looks
                until(lambda: folder.looks > looks + 1)
                file.write("30}")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert folder.wait(0, "qp", HANG_S) == {"qp": 30}
    finally:
        writer.join()


def test_an_event_ends_a_pause_and_its_absence_does_not(tmp_path: Path) -> None:
    events = FolderEvents(tmp_path)
    assert events.available
    written: list[float] = []

    def write() -> None:
        HandshakeFolder(tmp_path).write(0, "qp", {"qp": 30})
        written.append(time.monotonic())

    start_s = time.monotonic()
    events.pause(0.05)
    assert time.monotonic() - start_s >= 0.05
    writer = threading.Thread(target=write)
    writer.start()
    events.pause(HANG_S)  # ends now, or never
    writer.join()
    assert time.monotonic() - start_s < HANG_S
    write()
    events.pause(HANG_S)  # what was written before the pause counts
    assert time.monotonic() - start_s < HANG_S
    events.close()
    events.close()
    assert not events.available


def test_looking_who_is_there_is_no_event(tmp_path: Path) -> None:
    folder = HandshakeFolder(tmp_path)
    folder.lock(ENCODER).release()
    events = FolderEvents(tmp_path)
    assert not folder.someone_is(ENCODER)
    assert folder.read(0, "qp") is None
    assert events._poll.poll(0) == []


def test_a_folder_that_is_not_there_has_no_events(tmp_path: Path) -> None:
    assert not FolderEvents(tmp_path / "gone").available


def test_watches_are_given_back(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(50):
        folder = HandshakeFolder(tmp_path)
        folder.wait(0, "qp", 0.0)
    folder.close()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1


@given(st.floats(0, 1e6))
def test_looking_late_adds_an_eighth_of_the_time_waited_at_most(waited_s: float) -> None:
    assert pause_s(waited_s) <= max(waited_s / 8, 0.0002)
    assert pause_s(waited_s) <= 0.1
    assert pause_s(waited_s) <= pause_s(waited_s * 1.5)
