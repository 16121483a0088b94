"""The campaign sees what it is made to see, and a trial can be repeated."""

from __future__ import annotations

import os
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from reelrl.errors import ContentError
from tests.campaign import guard, mutation_run, trial, videos
from tests.campaign.footprint import Sample, verdicts
from tests.campaign.mutations import mutated_bytes, mutated_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

WRITES = guard.WriteGuard()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    for name in ("outside", "tmp", "cache", "sources/fake"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "outside" / "victim").write_text("nobody may change this")
    return tmp_path


def outcome_of(feed: Callable[[Path], object], work: Path, monkeypatch: pytest.MonkeyPatch) -> trial.Outcome:
    class Fake:
        @staticmethod
        def break_one(_: Path, folder: Path, outside: Path, __: Random) -> Iterator[Any]:
            (folder / "link").symlink_to(outside / "victim")
            yield "fake", lambda: feed(folder)

    monkeypatch.setattr(trial, "kind_named", lambda _: Fake)
    return trial.run_trial("fake", 0, 3, work, WRITES)


def _refuse(_: Path) -> None:
    raise ContentError("it is damaged")


def _stumble(_: Path) -> None:
    raise KeyError("width")


def _eat(_: Path) -> int:
    return sum(bytearray(1 << 30)[:: 1 << 12])


def _write_outside(folder: Path) -> None:
    (folder / "link").write_text("changed")


@pytest.mark.parametrize(
    ("feed", "problem"),
    [
        (lambda _: None, ""),
        (_refuse, ""),
        (_stumble, "fake: KeyError at .*: 'width'"),
        (lambda _: print("\ud800"), "fake: UnicodeEncodeError"),
        (_write_outside, "wrote outside its folder: open .*victim"),
        pytest.param(_eat, r"took \d+ MiB", marks=pytest.mark.long),
    ],
)
def test_what_is_promised_is_checked(
    feed: Callable[[Path], object], problem: str, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = outcome_of(feed, work, monkeypatch)
    assert (work / "trial-3").exists() == bool(problem), "the input of a broken promise stays"
    if problem:
        with pytest.raises(AssertionError, match=problem):
            raise AssertionError("\n".join(outcome.problems))
    else:
        assert outcome.problems == []


def test_the_same_seed_breaks_the_same_way(tmp_path: Path) -> None:
    (tmp_path / "sources").mkdir()
    videos.make_sources(tmp_path / "sources")
    made = []
    for name in "ab":
        (tmp_path / name).mkdir()
        next(videos.break_one(tmp_path / "sources", tmp_path / name, tmp_path, Random("7/videos/17")))
        made.append(guard.snapshot(tmp_path / name))
    assert made[0] == made[1]
    data = bytes(range(256)) * 9
    assert len({mutated_bytes(data, Random(seed)) for seed in range(100)}) > 80
    assert len({mutated_json('{"a": [1, 2], "b": {"c": 3}}', Random(seed)) for seed in range(100)}) > 60


def test_a_process_that_dies_costs_one_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is made to die at its second trial is started again at the third."""
    killer = tmp_path / "sitecustomize.py"
    killer.write_text(
        "import json, os, sys\n"
        "def die(event, arguments):\n"
        "    if event == 'os.mkdir' and str(arguments[0]).endswith('trial-1'):\n"
        "        os.kill(os.getpid(), 11)\n"
        "sys.addaudithook(die)\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    tally = mutation_run.run_kind("handshakes", 0, range(3), tmp_path / "work", jobs=1, until_s=float("inf"))
    assert tally.done == 3
    assert any("handshakes trial 1: the process was killed by SIGSEGV" in each for each in tally.problems)


def test_what_grows_is_named() -> None:
    def samples(files: Callable[[int], int]) -> list[Sample]:
        return [Sample(60.0 * n, 500 + 3 * (n % 2), 6, files(n), 0, 0.0, 0) for n in range(60)]

    assert verdicts(samples(lambda n: 10 + n % 3))[1] == []
    assert verdicts(samples(lambda n: 10 + n // 5))[1] == ["files"]
