from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from reelrl.cli.main import main
from reelrl.encode.minigop.evaluation.baseline import read_baseline
from tests.encode.fixtures import own_cache
from tests.waiting import HANG_S, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

__all__ = ["own_cache"]

CLIPS = ["generated:street?size=128x96&frames=12", "generated:talk?size=128x96&frames=12"]
QUICK = ["--clips", *CLIPS, "--qps", "30,38,46,54", "--preset", "10", "--keyint", "33"]


def test_the_command_from_clips_to_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, baseline = tmp_path / "out", tmp_path / "crf.json"
    wanted = ["--only", "crf-replay", "--jobs", "1", "--out", str(out), "--baseline", str(baseline)]
    assert main(["evaluate", "minigop", *QUICK, *wanted]) == 0
    printed = capsys.readouterr().out
    assert "vs vbr2" in printed
    assert "crf-replay makes 2 passes, vbr1 1" in printed
    assert len(rows_in(out)) == 2 * 4 * 4
    summary = json.loads((out / "summary.json").read_text())
    assert {each["contestant"] for each in summary["rates"]} == {"crf", "vbr1", "vbr2", "crf-replay"}
    assert set(read_baseline(baseline)) > set(CLIPS)
    page = (out / "index.html").read_text()
    assert page.index("<h1>crf-replay") < page.index("Against vbr1")
    assert "<script" not in page


def test_low_delay_has_its_own_anchors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = ["--goal", "cbr", "--only", "cbr", "--jobs", "1", "--out", str(tmp_path), "--json"]
    assert main(["evaluate", "minigop", *QUICK, *wanted]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["facts"]["anchors"] == ["cbr", "crf"]
    assert all(0 <= each["late"] <= 1 for each in record["rates"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--goal", "abr"], "use vbr or cbr"),
        (["--qps", "a,b"], "whole numbers"),
        (["--clips", "generated:street+nowhere.mkv"], "no clip 'nowhere.mkv'"),
        (["--keyint", "-1"], "needs key frames"),
    ],
)
def test_what_cannot_be_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(["evaluate", "minigop", *arguments, "--jobs", "1", "--out", str(tmp_path)]) == 1
    assert words in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX")
def test_killed_with_all_its_processes_it_goes_on_where_it_stood(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "reelrl.cli.main", "evaluate", "minigop", *QUICK, "--only", "vbr1"]
    environment = os.environ | {"REELRL_CACHE": str(tmp_path / "cache")}
    first = subprocess.Popen(
        [*command, "--jobs", "2", "--out", str(tmp_path / "first")],
        env=environment,
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    cache = tmp_path / "cache" / "minigop"
    until(lambda: len(list(cache.glob("[!.]*.json"))) >= 3 or first.poll() is not None)
    first.kill()
    assert first.wait() == -9
    until(lambda: not processes_of(first.pid))
    before = {path: path.stat().st_mtime_ns for path in cache.glob("[!.]*.json")}
    again = [*command, "--jobs", "1", "--out", str(tmp_path / "again")]
    subprocess.run(again, env=environment, check=True, capture_output=True, timeout=HANG_S)
    assert len(before) >= 3
    assert all(path.stat().st_mtime_ns == made for path, made in before.items())
    assert len(rows_in(tmp_path / "again")) == 2 * 4 * 3


def rows_in(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "points.csv").read_text().splitlines()))


def processes_of(group: int) -> list[str]:
    """Numbers of the processes that are left of a process group."""
    found = subprocess.run(["pgrep", "-g", str(group)], capture_output=True, text=True, check=False)
    return found.stdout.split()
