"""How browser and simulator are compared, on viewings made up for it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from reelrl.cli.main import main
from reelrl.stream.play.headless import Watched, agreement, habits
from tests.stream.play.sites import make_site

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


def viewing(qoe: float, predicted: float) -> Watched:
    return Watched("bola", "bus", qoe, 0.0, 0, 500.0, predicted, predicted - 0.5, 0.0, {})


def test_an_error_that_never_changes_leaves_the_correlation_perfect() -> None:
    found = agreement([viewing(1.0, 1.5), viewing(2.0, 2.5), viewing(4.0, 4.5)])
    assert found.error == pytest.approx(0.5)
    assert found.absolute_error == pytest.approx(0.5)
    assert found.correlation == pytest.approx(1.0)
    assert agreement([viewing(1.0, 1.5), viewing(2.0, 2.5)], by_habits=True).error == pytest.approx(0.0)


def test_where_nothing_varies_there_is_no_correlation() -> None:
    assert math.isnan(agreement([viewing(1.0, 1.5), viewing(1.0, 1.5)]).correlation)


def test_a_wait_for_room_is_no_pause_and_tells_how_full_the_player_keeps_its_buffer() -> None:
    def download(segment: int, at_s: float, took_ms: float) -> dict[str, float]:
        return {"segment": segment, "at_s": at_s, "download_ms": took_ms}

    # 50 ms between the first two; then the buffer is full, and the player waits two seconds until it has room.
    record = {
        "downloads": [
            *(download(0, 1.0, 500), download(1, 2.05, 1000), download(2, 4.55, 500)),
            download(3, 5.55, 500),  # it waited, and not for room
        ],
        "decisions": [{"segment": k, "buffer_s": level} for k, level in ((1, 2.0), (2, 17.5), (3, 2.0))],
    }
    known = habits([record], cap_s=20.0)
    assert known.pause_ms == pytest.approx(50.0)
    assert known.full_s == 17.5
    assert habits([], cap_s=20.0) == (0.0, 20.0)


def test_headless_needs_a_network_to_compare_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", str(make_site(tmp_path)), "--controller", "bola", "--headless", "--port", "0"]) == 1
    assert "give --trace FILE or --traces DIR" in capsys.readouterr().err
