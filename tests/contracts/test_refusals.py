"""Pairs of action and mode that an encoder would ignore are refused with the reason, and nothing is lost by it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from reelrl.encode import EncoderSession, EncoderSettings, WorkerSession
from reelrl.errors import ConfigError
from tests.encode.makers import BACKENDS, SUPERBLOCKS, bytes_of, coded, scene, settings_for

if TYPE_CHECKING:
    from reelrl.encode.codecs.whole_clip import Decision

MAP: Decision = {"offsets": [1, 0, 0, -1]}
QP: Decision = {"qp": 30}
BASE: Decision = {"base_qp": 30}

VBR: dict[str, Any] = {"rate_control": "vbr", "target_kbps": 200.0, "keyint": 60}
CBR: dict[str, Any] = {"rate_control": "cbr", "target_kbps": 200.0}
CRF: dict[str, Any] = {"rate_control": "crf"}

IGNORED_ACTIONS = [
    ("svtav1", "random_access", VBR, MAP, "superblock map was sent with rate_control = vbr.*would ignore"),
    ("svtav1", "random_access", VBR, QP, "picture QP was sent with rate_control = vbr.*would ignore"),
    ("svtav1", "random_access", VBR, BASE, "base QP was sent with rate_control = vbr.*would ignore"),
    ("svtav1", "low_delay", CBR, MAP, "superblock map was sent with rate_control = cbr.*would ignore"),
    ("svtav1", "low_delay", CBR, QP, "picture QP was sent with rate_control = cbr.*would ignore"),
    ("svtav1", "low_delay", CBR, BASE, "base QP was sent with rate_control = cbr.*would ignore"),
    ("aom", "low_delay", VBR, MAP, "superblock map was sent with rate_control = vbr.*would ignore"),
    ("aom", "low_delay", CBR, MAP, "superblock map was sent with rate_control = cbr.*would ignore"),
    ("aom", "low_delay", CBR, QP, "picture QP was sent with rate_control = cbr.*would ignore"),
    ("aom", "low_delay", CRF, MAP, "superblock map was sent with rate_control = crf.*would ignore"),
    ("svtav1", "low_delay", {}, QP, "qp = 30 was sent to a session without picture_qp; open it with picture_qp=True"),
    ("svtav1", "random_access", {}, QP, "qp = 30 was sent to a session without picture_qp"),
    ("aom", "low_delay", {}, QP, "qp = 30 was sent to a session without picture_qp"),
    ("svtav1", "low_delay", CRF, BASE, "base_qp = 30 .* rate_control = crf.* in cqp without picture_qp only"),
    ("aom", "low_delay", CRF, BASE, "base_qp = 30 .* rate_control = crf.* in cqp without picture_qp only"),
    ("svtav1", "low_delay", {"picture_qp": True}, BASE, "base_qp = 30 .* picture_qp = True"),
    ("aom", "low_delay", {"picture_qp": True}, BASE, "base_qp = 30 .* picture_qp = True"),
]


@pytest.mark.parametrize(("backend", "structure", "mode", "action", "reason"), IGNORED_ACTIONS)
def test_an_action_that_would_be_ignored_is_refused_and_the_stream_goes_on(
    backend: str, structure: str, mode: dict[str, Any], action: Decision, reason: str
) -> None:
    clip = scene("street", 6)
    settings = settings_for(clip, backend, structure, **mode)
    packets = []
    with EncoderSession(settings) as session:
        for frame in clip:
            with pytest.raises(ConfigError, match=reason):
                session.send(frame, **action)
            session.send(frame)
            packets += session.receive()
        packets += session.flush()
    assert bytes_of(packets) == bytes_of(coded(clip, settings))


IMPOSSIBLE_SETTINGS = [
    ("svtav1", "random_access", CBR, "constant bitrate in low delay only.*structure=low_delay"),
    ("svtav1", "low_delay", VBR, "variable bitrate in random access only.*structure=random_access"),
    ("svtav1", "random_access", VBR | {"keyint": -1}, "needs key frames: set keyint"),
    ("svtav1", "low_delay", CBR | {"hierarchical_levels": 3}, "hierarchical_levels = 3 with cbr.*silently take 2"),
    ("svtav1", "low_delay", {"hierarchical_levels": 1}, "hierarchical_levels = 1; SVT-AV1 takes 2 to 5"),
    ("svtav1", "random_access", {"hierarchical_levels": 0}, "hierarchical_levels = 0; SVT-AV1 takes 2 to 5"),
    ("svtav1", "random_access", {"hierarchical_levels": 1}, "hierarchical_levels = 1; SVT-AV1 takes 2 to 5"),
    ("aom", "random_access", {}, "aom backend codes low delay only.*backend=svtav1"),
    ("aom", "low_delay", {"hierarchical_levels": 3}, "hierarchical_levels = 3: the aom backend has none"),
    ("aom", "low_delay", CRF | {"picture_qp": True}, "picture_qp with rate_control = crf.*in cqp only"),
]


@pytest.mark.parametrize("kind", [EncoderSession, WorkerSession])
@pytest.mark.parametrize(("backend", "structure", "mode", "reason"), IMPOSSIBLE_SETTINGS)
def test_settings_that_no_encoder_meets_are_refused_at_the_door(
    kind: type[EncoderSession], backend: str, structure: str, mode: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        kind(settings_for(scene("street", 1), backend, structure, **mode))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (VBR | {"picture_qp": True}, "picture_qp with rate_control = vbr: the encoder would ignore the QPs"),
        (CBR | {"picture_qp": True}, "picture_qp with rate_control = cbr: the encoder would ignore the QPs"),
        ({"rate_control": "vbr"}, "rate_control = vbr with target_kbps = None; set it"),
        ({"rate_control": "cbr", "target_kbps": 0.0}, r"rate_control = cbr with target_kbps = 0\.0; set it"),
        ({"rate_control": "cbr", "target_kbps": -5.0}, r"target_kbps = -5\.0"),
        ({"rate_control": "cbr", "target_kbps": float("nan")}, "target_kbps = nan"),
        ({"target_kbps": 200.0}, r"target_kbps = 200\.0 with rate_control = cqp, which has no target"),
        (CRF | {"target_kbps": 200.0}, "with rate_control = crf, which has no target"),
        ({"qp": 0}, "qp = 0; use 1 to 63"),
        ({"qp": 64}, "qp = 64; use 1 to 63"),
        ({"preset": 14}, "preset = 14; use 0 to 13"),
        ({"preset": -1}, "preset = -1; use 0 to 13"),
        ({"threads": 0}, "threads = 0; use 1 to 64"),
        ({"keyint": 0}, "keyint = 0; use -1"),
        ({"hierarchical_levels": 6}, "hierarchical_levels = 6; use 0 to 5"),
        ({"fps": 0}, "fps = 0; a frame rate is above zero"),
        ({"deadline_s": 0.0}, r"deadline_s = 0\.0"),
    ],
)
def test_settings_check_themselves(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        replace(EncoderSettings(width=64, height=64), **changes)


def test_an_unknown_backend_is_named_with_its_neighbours() -> None:
    with pytest.raises(ConfigError, match=r"unknown backend 'svt-av1'; did you mean 'svtav1'\?"):
        EncoderSession(EncoderSettings(backend="svt-av1", width=64, height=64))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_session_needs_a_size(backend: str) -> None:
    with pytest.raises(ConfigError, match=r"settings have no frame size; set width and height, or use .*for_clip"):
        EncoderSession(EncoderSettings(backend=backend))


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_allowed_is_not_refused(backend: str) -> None:
    clip = scene("street", 3)
    for changes, action in (
        ({}, {"offsets": [0] * SUPERBLOCKS, "base_qp": 20}),
        ({"picture_qp": True}, {"offsets": [[1, 2], [3, -3]], "qp": 63}),
        (CRF, {}),
        (CBR, {}),
    ):
        assert len(coded(clip, settings_for(clip, backend, **changes), lambda _, a=action: a)) == 3  # type: ignore[misc]
