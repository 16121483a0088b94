"""Controllers of frames against libaom's own two passes, from clips to the page."""

from __future__ import annotations

import itertools
import json
import math
from typing import TYPE_CHECKING

import pytest

from reelrl.cli.main import main
from tests.encode.fixtures import own_cache

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

__all__ = ["own_cache"]

CLIP = "generated:cuts?size=64x64&frames=30"


def test_the_command_from_clips_to_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["evaluate", "frameqp", "--clips", CLIP, "--qps", "32,40,48", "--jobs", "1", "--out", str(tmp_path)]
    assert main([*words, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    rates = {each["contestant"]: each for each in record["rates"]}
    assert list(rates) == ["vbr2", "crf", "rate-model", "rate-model@public"]
    assert record["facts"]["anchors"] == ["vbr2", "crf", "rate-model"]
    assert rates["rate-model"]["error"]["mean"] < 5 < rates["vbr2"]["error"]["mean"]
    assert rates["vbr2"]["passes"] == "2"
    points = (tmp_path / "points.csv").read_text().splitlines()
    assert len(points) == 1 + 3 + 3 * 2
    named = points[0].split(",")
    crf, vbr = ([dict(zip(named, row.split(","), strict=False)) for row in points[1:] if row.startswith(name)]
                for name in ("crf,", "vbr2,"))  # fmt: skip
    between = [math.sqrt(float(one["kbps"]) * float(other["kbps"])) for one, other in itertools.pairwise(crf)]
    assert [float(point["target_kbps"]) for point in vbr] == [round(kbps) for kbps in between]
    assert "reel evaluate frameqp" in (tmp_path / "index.html").read_text()
    assert main([*words, "--qps", "32,40"]) == 1
    assert "rates lie between them" in capsys.readouterr().err
