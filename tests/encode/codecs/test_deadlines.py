"""How long a call may take: by the work in it, so that a slow machine is not called hung."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reelrl.encode import EncoderSession
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.codecs.worker import WorkerSession
from reelrl.errors import EncoderTimeout
from tests.encode.makers import hurry, scene, settings_for

USUAL = EncoderSettings(width=1280, height=720, preset=8, deadline_s=60)


def test_the_deadline_is_that_of_720p_at_preset_8_and_never_shorter() -> None:
    assert USUAL.call_deadline_s == 60
    assert replace(USUAL, preset=13).call_deadline_s == 60
    assert replace(USUAL, width=64, height=64).call_deadline_s == 60


def test_it_grows_with_the_picture_and_with_slower_presets() -> None:
    assert replace(USUAL, width=1920, height=1080).call_deadline_s == 2.25 * 60
    slow = [replace(USUAL, preset=preset).call_deadline_s for preset in range(9)]
    assert slow == sorted(slow, reverse=True)
    # The end of a stream at 1080p and preset 4 took over a minute on a busy machine.
    assert replace(USUAL, width=1920, height=1080, preset=4).call_deadline_s == 9 * 60


@pytest.mark.slow
def test_a_session_waits_so_long_and_no_longer() -> None:
    clip = scene("street", 3)
    with EncoderSession(settings_for(clip, "svtav1", "random_access", preset=6)) as session:
        for frame in clip:
            session.send(frame)
        hasty = replace(session.settings, deadline_s=0.1)
        session._encoder._settings = hasty  # type: ignore[union-attr]
        with pytest.raises(EncoderTimeout, match=r"did not deliver frame 2 within 0\.2 s"):
            session.receive(wait_for=2)


@pytest.mark.slow
def test_a_worker_session_too() -> None:
    clip = scene("street", 3)
    with WorkerSession(settings_for(clip, "svtav1", "random_access", preset=6)) as session:
        for frame in clip:
            session.send(frame)
        hurry(session, 0.1)
        with pytest.raises(EncoderTimeout, match=r"did not receive within 2\.2 s"):  # two seconds of grace
            session.receive(wait_for=2)
