"""`reel play`: what it serves, and what it refuses before it begins."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING

import pytest

from reelrl.cli.main import main
from reelrl.stream.data.traces import write_trace
from tests.stream.helpers import links
from tests.stream.play.sites import make_site

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--controller", "nobody"], "nobody"),
        (["--controller", "oracle"], "needs the future of the link"),
        (["--controller", "lowest(7)"], "the ladder has 3"),
        (["--trace", "a.json", "--traces", "b"], "choose one"),
        (["--trace", "missing.json"], "missing.json"),
        (["--host", "0.0.0.0"], "is not one address"),
        (["--latency", "-1"], "0 or more"),
        (["--buffer", "0"], "above 0"),
        (["--port", "99999"], "1 to 65535"),
    ],
)
def test_what_cannot_work_is_refused_before_it_begins(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["play", str(make_site(tmp_path)), "--controller", "bola", *words]) == 1
    assert said in capsys.readouterr().err


def test_a_folder_without_a_manifest_names_the_command_that_makes_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["play", str(tmp_path), "--controller", "bola"]) == 1
    assert f"reel ladder FILE -o {tmp_path}" in capsys.readouterr().err


def test_it_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    site, trace = make_site(tmp_path), tmp_path / "bus.json"
    write_trace(links()[0], trace)
    words = [sys.executable, "-u", "-m", "reelrl.cli.main", "play", str(site), "--controller", "bola", "dashjs"]
    server = subprocess.Popen([*words, "--port", "0", "--trace", str(trace)], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        lines = []
        for line in server.stdout:
            lines.append(line.split())
            if lines[-1][0] == "open":
                break
        assert ["link", "bus"] in lines
        with urllib.request.urlopen(lines[-1][1] + "api/setup", timeout=60) as answer:
            assert b'"traces":["bus"]' in answer.read()
        server.send_signal(signal.SIGINT)
        assert server.wait(60) == 130
    finally:
        server.kill()
        server.wait()
        if server.stdout is not None:
            server.stdout.close()
