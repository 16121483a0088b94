"""How browser and simulator are compared, on viewings made up for it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from reelrl.cli.main import main
from reelrl.stream.play.headless import Watched, agreement, pause_ms
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
    assert agreement([viewing(1.0, 1.5), viewing(2.0, 2.5)], with_pauses=True).error == pytest.approx(0.0)


def test_where_nothing_varies_there_is_no_correlation() -> None:
    assert math.isnan(agreement([viewing(1.0, 1.5), viewing(1.0, 1.5)]).correlation)


def test_a_pause_is_counted_only_where_the_player_had_room() -> None:
    def download(at_s: float, took_ms: float, buffer_s: float) -> dict[str, float]:
        return {"at_s": at_s, "download_ms": took_ms, "buffer_s": buffer_s}

    # 50 ms between the first two; then the buffer is full and the player waits two seconds on purpose.
    record = {"downloads": [download(1.0, 500, 4.0), download(2.05, 1000, 20.0), download(4.55, 500, 20.0)]}
    assert pause_ms([record], cap_s=20.0) == pytest.approx(50.0)
    assert pause_ms([], cap_s=20.0) == 0.0


def test_headless_needs_a_network_to_compare_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", str(make_site(tmp_path)), "--controller", "bola", "--headless", "--port", "0"]) == 1
    assert "give --trace FILE or --traces DIR" in capsys.readouterr().err
