"""Whatever an encoder or a trainer writes into its three files, the other side has a message or one of our errors."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reelrl.encode.handshake.encoder_side import HandshakeEncoder
from reelrl.encode.handshake.episode import EPISODE, PLANNED, read_episode
from reelrl.encode.handshake.folder import ENCODER, HandshakeFolder
from reelrl.encode.handshake.messages import (
    MESSAGES,
    checked,
    feedback_message,
    file_name,
    read_feedback,
    request_message,
)
from reelrl.encode.handshake.trainer_side import HandshakeSource
from reelrl.encode.minigop.controllers.leaky_bucket import LeakyBucket
from reelrl.encode.minigop.protocols import MiniGopRequest, Situation
from reelrl.encode.minigop.state import observation
from reelrl.errors import HandshakeError, ReelError
from tests.encode.handshake.test_messages import FEEDBACK

REQUEST = MiniGopRequest(
    mg=0,
    gop=0,
    first_frame=0,
    frames=8,
    base_qp=38,
    layer_qps=(40, 36),
    bits_left=1e5,
    frames_left=8,
    features={"intra": 2.0, "scene_cut": 1.0},
)
PLAN = [
    {"mg": 0, "gop": 0, "first_frame": 0, "frames": 8, "base_qp": 38, "layer_qps": [40], "probe_bits": None,
     "probe_sse": None, "features": {"inter": 1.0, "scene_cut": 0.0}}
]  # fmt: skip
GOOD_EPISODE: dict[str, Any] = {"width": 64, "height": 64, "fps": 30, "kbps": 60.0, "goal": "vbr", "plan": PLAN}
GOOD: dict[str, dict[str, Any]] = {
    "rq": request_message(REQUEST, session="s", episode=GOOD_EPISODE),
    "qp": {"qp": 30, "session": "s"},
    "fb": feedback_message(FEEDBACK, session="s") | {"mg": 0, "frames": 8},
}

HUGE = 10**400
numbers = st.one_of(
    st.sampled_from([HUGE, -HUGE, 10**308, 1e308, -1e308, 2**53, 2**53 + 1, 0, -1, 1e-308, 5e-324]),
    st.integers(),
    st.floats(),
)
strange = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=20) | st.sampled_from(["1e999999999", "\ud800", "1/0"]),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=9), inner, max_size=3)),
    max_leaves=6,
)


def check_short(error: HandshakeError) -> None:
    """However much was written, an error stays readable."""
    assert len(str(error)) < 700


fields = [(kind, name) for kind in MESSAGES for name in MESSAGES[kind]]


@given(st.sampled_from(fields), strange)
@example(("rq", "bits_left"), HUGE)
@example(("rq", "features"), {"intra": -HUGE})
@example(("rq", "layer_qps"), [HUGE])
@example(("qp", "qp"), HUGE)
@example(("fb", "sse_y"), HUGE)
@example(("fb", "psnr_y"), 5000)
def test_a_field_holds_what_the_schema_says_or_is_refused_in_few_words(field: tuple[str, str], value: Any) -> None:
    kind, name = field
    try:
        message = checked(GOOD[kind] | {name: value}, MESSAGES[kind], "file")
        if kind == "fb":
            read_feedback(message, 0.0, 64 * 64)
        if kind == "rq":
            read_episode(message, GOOD_EPISODE | {"clip": "", "buffer_s": 1.0, "feedback_lag": 0, "passes": 0})
    except HandshakeError as error:
        check_short(error)


@given(st.sampled_from([*EPISODE, "fps", "plan", "other"]), strange)
@example("fps", "1e999999999")
@example("fps", "30000/0")
@example("fps", HUGE)
@example("fps", float("inf"))
@example("frames", HUGE)
@example("kbps", 0)
@example("width", "wide")
@example("plan", [])
@example("plan", [1])
def test_an_episode_can_be_decided_on_or_is_refused(name: str, value: Any) -> None:
    good = {"clip": "", "buffer_s": 1.0, "feedback_lag": 0, "passes": 0} | GOOD_EPISODE
    try:
        message = checked(GOOD["rq"] | {"episode": good | {name: value}}, MESSAGES["rq"], "file")
        episode = read_episode(message, {})
    except HandshakeError as error:
        check_short(error)
        return
    observation(Situation(episode, REQUEST))
    controller = LeakyBucket()
    controller.reset(0, episode)
    controller.act(Situation(episode, REQUEST))


@given(st.sampled_from(list(PLANNED)), strange)
def test_a_plan_can_be_looked_ahead_in_or_is_refused(name: str, value: Any) -> None:
    good = {"clip": "", "buffer_s": 1.0, "feedback_lag": 0, "passes": 0} | GOOD_EPISODE
    try:
        message = checked(GOOD["rq"] | {"episode": good | {"plan": [PLAN[0] | {name: value}]}}, MESSAGES["rq"], "file")
        episode = read_episode(message, {})
    except HandshakeError as error:
        check_short(error)
        return
    observation(Situation(episode, REQUEST))


texts = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [
            b"[" * 100_000,
            b'{"qp":' * 50_000,
            b'{"qp": ' + b"9" * 5000 + b"}",
            b'{"qp": 1e999}',
            b"\xff\xfe",
            b"nul",
            b"\0" * 99,
        ]
    ),
)


@given(st.sampled_from(list(MESSAGES)), texts)
def test_what_is_no_json_is_refused_when_nobody_writes_any_more(kind: str, text: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / file_name(0, kind)).write_bytes(text)
        with pytest.raises(HandshakeError) as refusal:
            HandshakeFolder(folder).read(0, kind, final=True)
        check_short(refusal.value)


@settings(max_examples=25)
@given(st.sampled_from([field for field in fields if field[0] != "qp"]), strange)
def test_a_trainer_ends_with_an_error_of_ours_whatever_the_encoder_writes(field: tuple[str, str], value: Any) -> None:
    kind, name = field
    with tempfile.TemporaryDirectory() as place:
        folder = HandshakeFolder(place)
        lock = folder.lock(ENCODER)  # as an encoder that is there and waits
        for each in ("rq", "fb"):
            message = GOOD[each] | ({name: value} if each == kind else {})
            (folder.path / file_name(0, each)).write_text(json.dumps(message))
        try:
            with HandshakeSource(place, silence_s=0.01) as source:
                while (request := source.request()) is not None:
                    observation(Situation(source.episode, request))
                    source.reply(0.0)
                source.feedback()
        except ReelError:
            pass
        finally:
            lock.release()


@settings(max_examples=25)
@given(strange, texts)
def test_an_encoder_gets_a_qp_whatever_the_trainer_writes(value: Any, text: bytes) -> None:
    for content in (json.dumps({"qp": value}).encode(), json.dumps(value).encode(), text):
        with tempfile.TemporaryDirectory() as place, HandshakeEncoder(place, deadline_s=0.01) as encoder:
            (Path(place) / file_name(0, "qp")).write_bytes(content)
            assert 1 <= encoder.ask(REQUEST) <= 63


def test_a_request_beyond_the_plan_is_refused(tmp_path: Path) -> None:
    folder = HandshakeFolder(tmp_path)
    lock = folder.lock(ENCODER)
    first = GOOD["rq"] | {"frames_left": 16}
    (tmp_path / file_name(0, "rq")).write_text(json.dumps(first))
    (tmp_path / file_name(1, "rq")).write_text(json.dumps(GOOD["rq"] | {"mg": 1, "first_frame": 8}))
    with HandshakeSource(tmp_path) as source:
        source.reply(0.0)
        with pytest.raises(HandshakeError, match=r"mg0001_rq\.json comes after the 1 mini-GOPs that"):
            source.request()
    lock.release()
