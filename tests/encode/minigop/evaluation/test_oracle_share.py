"""Shares of an oracle's gain, and rules that have not seen the source they are used on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from reelrl.cli.main import main
from reelrl.encode.minigop.controllers.imitation import Imitation
from reelrl.encode.minigop.evaluate import MiniGopContestant
from reelrl.encode.minigop.evaluation.oracle_share import oracle_of, shares
from reelrl.encode.minigop.evaluation.rate_point import RatePoint
from reelrl.errors import ConfigError
from reelrl.report.intervals import quotient_interval

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

pytestmark = pytest.mark.slow


def curve(name: str, clip: str, bits: float) -> Iterable[RatePoint]:
    """Four points that take `bits` times what the base takes at the same quality."""
    for qp, kbps, psnr in ((28, 400, 42.0), (36, 200, 39.0), (44, 100, 36.0), (52, 50, 33.0)):
        facts = {"source": clip, "split": "test", "pristine": True, "frames": 60, "seconds": 1.0, "passes": 2}
        hashes = {"content_hash": "", "stream_hash": "", "deltas": [], "late_frames": 0, "peak_s": 0.0}
        spent = {"qp": qp, "target_kbps": kbps, "kbps": kbps * bits, "quality": {"psnr_y": psnr}}
        yield RatePoint(contestant=name, clip=clip, **facts, **hashes, **spent)  # type: ignore[arg-type]


def test_the_share_is_what_was_saved_over_what_the_oracle_saved() -> None:
    points = [
        *(point for clip in "ab" for point in curve("base", clip, 1.0)),
        *curve("half", "a", 0.98),
        *curve("half", "b", 0.99),
        *(point for clip in "ab" for point in curve("best", clip, 0.97)),
    ]
    half, best = shares(points, "best", "base")
    assert half.saved.mean == pytest.approx(1.5, abs=0.01)
    assert half.share.mean == pytest.approx(0.5, abs=0.01)
    assert (half.share.low, half.share.high) == pytest.approx((1 / 3, 2 / 3), abs=0.01)
    assert best.share == pytest.approx((1.0, 1.0, 1.0))
    assert half.clips == pytest.approx({"a": 2.0, "b": 1.0}, abs=0.01)


def test_modes_of_the_encoder_have_no_share() -> None:
    points = [point for name in ("crf", "base", "best") for point in curve(name, "a", 0.9 if name == "best" else 1.0)]
    assert [share.contestant for share in shares(points, "best", "base")] == ["best"]


def test_a_quotient_of_equal_parts_has_no_spread() -> None:
    assert quotient_interval(np.array([1.0, 2.0, 4.0]), np.array([2.0, 4.0, 8.0])) == pytest.approx((0.5, 0.5, 0.5))
    with pytest.raises(ConfigError, match="same content"):
        quotient_interval(np.array([1.0]), np.array([1.0, 2.0]))


def test_a_share_needs_one_oracle_and_a_base_that_is_there() -> None:
    search, model = MiniGopContestant.parse("direct-search"), MiniGopContestant.parse("rate-model")
    assert oracle_of([model, search], "rate-model") == "direct-search"
    with pytest.raises(ConfigError, match="no oracle"):
        oracle_of([model], "rate-model")
    with pytest.raises(ConfigError, match="choose from rate-model"):
        oracle_of([model, search], "rate-mode")


@pytest.mark.long
def test_a_rule_is_fitted_without_each_source_and_evaluated_beside_the_search(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clips = [f"generated:{style}?size=96x64&frames=34" for style in ("cuts", "talk")]
    quick = ["--clips", *clips, "--qps", "34,46", "--preset", "10", "--jobs", "1"]
    rules = str(tmp_path / "without-{source}.json")
    assert main(["fit", "minigop", *quick, "-o", rules]) == 0
    assert "of the variance" in capsys.readouterr().out
    facts_of = {path.name: Imitation.load(path).facts for path in tmp_path.glob("*.json")}
    assert {name: facts["clips"] for name, facts in facts_of.items()} == {
        "without-generated-cuts.json": [clips[1]],
        "without-generated-talk.json": [clips[0]],
    }
    who = ["rate-model(0)", f"imitation={rules}", "direct-search"]
    assert main(["evaluate", "minigop", *quick, "--only", *who, "--share-over", who[0], "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "share of what direct-search saves" in out
    assert "an oracle, for comparison" in out


def test_a_rule_for_each_source_needs_two_sources(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quick = ["--clips", "generated:talk?size=96x64&frames=18", "--qps", "34,46", "--preset", "10", "--jobs", "1"]
    assert main(["fit", "minigop", *quick, "-o", str(tmp_path / "without-{source}.json")]) == 1
    assert "two sources" in capsys.readouterr().err
