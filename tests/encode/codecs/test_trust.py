"""A library that fails its self-test is refused by the first session, and never believed by accident."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import pytest

from reelrl.encode import EncoderSession, EncoderSettings
from reelrl.encode.codecs import selftest, trust
from reelrl.errors import EncoderMissing

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = EncoderSettings(backend="aom", width=64, height=64)


@pytest.fixture(autouse=True)
def untried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No verdict in memory, none on disk."""
    monkeypatch.setattr(trust, "_trusted", set())
    monkeypatch.setattr(trust, "cache_dir", lambda: tmp_path)


def verdicts(monkeypatch: pytest.MonkeyPatch, *, ok: bool) -> list[str]:
    """The backends that were tried, each with this verdict."""
    tried: list[str] = []

    def run(backend: str) -> selftest.SelfTest:
        tried.append(backend)
        with EncoderSession(SETTINGS):  # as the real one does
            return selftest.SelfTest(ok, "a map changed nothing", 0.0)

    monkeypatch.setattr(selftest, "run", run)
    return tried


def test_a_library_that_fails_is_refused_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = verdicts(monkeypatch, ok=False)
    for _ in range(2):
        with pytest.raises(EncoderMissing, match=r"not the encoder it seems: a map changed nothing; install"):
            EncoderSession(SETTINGS)
    assert tried == ["aom", "aom"]


def test_a_library_that_passes_is_tried_once_on_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = verdicts(monkeypatch, ok=True)
    for _ in range(2):
        EncoderSession(SETTINGS).close()
        monkeypatch.setattr(trust, "_trusted", set())  # as in another process
    assert tried == ["aom"]


def test_other_threads_wait_for_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    trying, go_on = threading.Event(), threading.Event()
    refused: list[str] = []

    def run(_backend: str) -> selftest.SelfTest:
        trying.set()
        go_on.wait(60)
        return selftest.SelfTest(False, "wrong", 0.0)

    def ask() -> None:
        try:
            trust.ensure("aom")
        except EncoderMissing as error:
            refused.append(str(error))

    monkeypatch.setattr(selftest, "run", run)
    threads = [threading.Thread(target=ask) for _ in range(2)]
    threads[0].start()
    assert trying.wait(60)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert len(refused) == 2


def test_a_backend_of_the_users_own_is_not_ours_to_try() -> None:
    trust.ensure("my_pkg.mine:Encoder")
    assert "my_pkg" not in sys.modules
