from __future__ import annotations

import csv
import json
from functools import cache
from typing import TYPE_CHECKING

import pytest

from reelrl.cli.main import main
from reelrl.cli.options import numbers
from reelrl.encode.clip_choice import split_clips
from reelrl.encode.superblock import measure
from reelrl.encode.superblock.contestants import MapContestant
from reelrl.encode.superblock.evaluate import SuperblockEvaluationPlan, encode_all, with_anchors
from reelrl.encode.superblock.map_policy import MapPolicy
from reelrl.encode.superblock.search_clips import means
from reelrl.encode.superblock.summary import clip_results
from reelrl.errors import ConfigError
from reelrl.report.bd_rate import BdRate
from reelrl.report.verdicts import ClipResult, shown, verdict, verdicts
from tests.encode.makers import scene

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.encode.superblock.evaluate import EncodePoint

pytestmark = pytest.mark.slow

METRICS = ("psnr_y", "ssim_db")
QUICK = SuperblockEvaluationPlan(qps=(28, 36, 44, 52), frames=3, metrics=METRICS)
NAMES = ("zero-map", "random-map", "crf", "crf:aq-mode=3")


def everyone() -> list[MapContestant]:
    return [MapContestant.parse(name) for name in NAMES]


@cache
def points() -> tuple[EncodePoint, ...]:
    return tuple(encode_all(everyone(), [scene(frames=4), scene("talk", frames=4)], QUICK))


@pytest.mark.parametrize(
    ("text", "name", "spec", "anchor"),
    [
        ("variance-map(0.5)", "variance-map(0.5)", "variance-map(0.5)", "no-map"),
        ("crf:aq-mode=3", "crf:aq-mode=3", "crf:aq-mode=3", "crf"),
        ("mine=crf:aq-mode=3,deltaq-mode=0", "mine", "crf:aq-mode=3,deltaq-mode=0", "crf"),
        ("folder/moving.yaml", "moving", "folder/moving.yaml", "no-map"),
        ("mine=folder/moving.yaml", "mine", "folder/moving.yaml", "no-map"),
    ],
)
def test_contestants_are_compared_with_their_like(text: str, name: str, spec: str, anchor: str) -> None:
    found = MapContestant.parse(text)
    assert (found.name, found.spec, found.anchor) == (name, spec, anchor)


def test_anchors_are_encoded_though_nobody_named_them() -> None:
    names = [contestant.name for contestant in with_anchors([MapContestant.parse("crf:aq-mode=1")])]
    assert names == ["no-map", "time-rule", "crf", "crf:aq-mode=1"]


def test_still_pictures_have_no_rule_over_time() -> None:
    names = [contestant.name for contestant in with_anchors([MapContestant.parse("zero-map")], over_time=False)]
    assert names == ["no-map", "zero-map"]


def test_windows_of_a_clip_are_one_figure_their_mean() -> None:
    map_, clip = [MapContestant.parse("variance-map(0.5)")], scene(frames=9)
    plan = SuperblockEvaluationPlan(qps=QUICK.qps, frames=1, windows=2, metrics=METRICS)
    both = encode_all(map_, [clip], plan)
    assert {point.window for point in both} == {0, 1}
    (mean, *_) = clip_results(map_, both, METRICS)
    apart = [[point for point in both if point.window == window] for window in (0, 1)]
    first, second = (clip_results(map_, points, METRICS)[0].bd.percent for points in apart)
    assert first is not None
    assert second is not None
    assert first != second
    assert mean.bd.percent == pytest.approx((first + second) / 2)


def test_contestants_may_be_compared_with_several_others() -> None:
    results = clip_results(everyone(), points(), METRICS, against=["no-map", "crf"])
    pairs = {(result.contestant, result.anchor) for result in results}
    assert pairs >= {("zero-map", "no-map"), ("zero-map", "crf"), ("crf", "no-map")}
    assert not any(result.contestant == result.anchor for result in results)


def test_every_contestant_meets_every_clip_at_every_qp() -> None:
    seen = {(point.contestant, point.clip, point.qp) for point in points()}
    assert len(seen) == len(points()) == 2 * 4 * (len(NAMES) + 2)
    assert {point.contestant for point in points()} == {"no-map", "time-rule", *NAMES}


def test_a_map_of_zeros_is_free_on_aom_and_a_random_one_is_not() -> None:
    results = clip_results(everyone(), points(), METRICS)
    zero = [result.bd.percent for result in results if result.contestant == "zero-map"]
    drawn = [result.bd.percent for result in results if result.contestant == "random-map"]
    assert zero == [0, 0, 0, 0]
    assert all(percent is None or abs(percent) > 1e-6 for percent in drawn)
    assert not any(result.contestant == "crf" for result in results)


def test_an_evaluation_that_was_killed_goes_on_where_it_stood(monkeypatch: pytest.MonkeyPatch) -> None:
    first = points()
    monkeypatch.setattr(measure, "encode_clip", lambda *_: pytest.fail("encoded again"))
    assert tuple(encode_all(everyone(), [scene(frames=4), scene("talk", frames=4)], QUICK)) == first


def test_processes_give_the_same_as_one() -> None:
    assert tuple(encode_all(everyone(), [scene(frames=4), scene("talk", frames=4)], QUICK, jobs=2)) == points()


def test_less_than_no_processes_are_refused() -> None:
    with pytest.raises(ConfigError, match="jobs = -1"):
        encode_all(everyone(), [scene(frames=4)], QUICK, jobs=-1)


def test_a_policy_that_abstains_is_exactly_no_map(tmp_path: Path) -> None:
    MapPolicy({"variance": 1.0}, abstains=True).save(tmp_path / "calm.yaml")
    calm = [MapContestant.parse(str(tmp_path / "calm.yaml"))]
    found = encode_all(calm, [scene(frames=4)], QUICK)
    (result, *_) = clip_results(calm, found, METRICS)
    assert (result.contestant, result.bd.percent) == ("calm", 0)


def result(clip: str, percent: float | None, *doubts: str) -> ClipResult:
    return ClipResult("mine", "no-map", "psnr_y", clip, clip, "test", True, BdRate(percent, 1.0, doubts))


def test_a_verdict_counts_all_clips_and_names_the_worst() -> None:
    results = [result("a", -4.0), result("b", -2.0), result("c", 0.0), result("d", 1.0), result("e", None, "it falls")]
    found = verdict(results)
    assert found.percent is not None
    assert found.percent.mean == pytest.approx(-1.25)
    assert found.percent.low < -1.25 < found.percent.high
    assert (found.better, found.worse, found.worst) == (2, 1, ("d", 1.0))
    assert found.left_out == {"e": "it falls"}
    assert found.sign_p == 1.0


def test_eight_of_eight_clips_are_no_accident() -> None:
    found = verdict([result(str(number), -1.0) for number in range(8)])
    assert found.sign_p == pytest.approx(2 / 256)


def test_without_any_figure_there_is_no_mean() -> None:
    found = verdict([result("a", None, "it falls")])
    assert (found.percent, found.median, found.worst) == (None, None, None)
    assert shown(found) == "no figure"


def test_means_of_a_search_tell_clips_that_were_not_fitted_on_apart() -> None:
    common = {"metric": "psnr_y", "simple": -1.0, "transfer": 0.0, "encodes": 100, "cpu_s": 2.0, "pristine": True}
    records = [
        {"percent": -4.0, "policy": -3.0, "split": "train", **common},
        {"percent": -2.0, "policy": -0.5, "split": "test", **common},
    ]
    found = {mean["of"]: mean for mean in means(records)}
    assert found["2 clips"]["percent"][0] == -3
    assert found["1 test clips"]["share_of_search"] == 0.25


def test_the_split_is_by_source_and_generated_clips_are_on_both_sides() -> None:
    train, test = split_clips("train"), split_clips("test")
    assert not {clip.source for clip in train} & {clip.source for clip in test}
    assert train
    assert test
    with pytest.raises(ConfigError, match="use train or test"):
        split_clips("all")


@pytest.mark.parametrize(
    ("names", "match"),
    [
        (["variance-mop"], "no run|did you mean|variance-mop"),
        (["gone.yaml"], r"gone\.yaml"),
        (["crf:aq-mode"], "write the encoder's options"),
        (["a=zero-map", "a=random-map"], "two contestants"),
    ],
)
def test_wrong_contestants_are_refused_before_anything_is_encoded(names: list[str], match: str) -> None:
    from reelrl.errors import ReelError

    with pytest.raises(ReelError, match=match):
        encode_all([MapContestant.parse(name) for name in names], [scene(frames=2)], QUICK)


def test_qps_are_checked() -> None:
    assert numbers("--qps", "28,36") == (28, 36)
    with pytest.raises(ConfigError, match="whole numbers"):
        numbers("--qps", "28;36")
    with pytest.raises(ConfigError, match="1 QPs"):
        SuperblockEvaluationPlan(qps=(30,))


def test_the_commands_from_fit_to_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clips = ["generated:street?size=128x96&frames=9", "generated:talk?size=128x96&frames=9"]
    policy, out = str(tmp_path / "centre.yaml"), tmp_path / "out"
    small = ["--frames", "3", "--jobs", "1"]
    fitting = ["--objective", "weighted:centre", "--generations", "0", "--qps", "40", "-o", policy]
    assert main(["fit", "superblock", "--clips", *clips, *fitting, *small]) == 0
    evaluating = ["--only", "zero-map", policy, "--no-vmaf", "--out", str(out)]
    assert main(["evaluate", "superblock", "--clips", *clips, *evaluating, *small]) == 0
    searching = ["--metrics", "psnr_y", "--refinements", "0", "--out", str(tmp_path / "search.json")]
    assert main(["search", "superblock", clips[0], *searching, *small]) == 0
    printed = capsys.readouterr().out
    assert "zero-map" in printed
    assert "centre" in printed
    assert json.loads((tmp_path / "search.json").read_text())["clips"][0]["percent"] <= 0
    rows = list(csv.DictReader((out / "points.csv").read_text().splitlines()))
    assert len(rows) == 2 * 4 * 4
    summary = json.loads((out / "summary.json").read_text())
    assert summary["facts"]["command"].startswith("reel")
    assert {each["contestant"] for each in summary["verdicts"]} == {"time-rule", "zero-map", "centre"}
    page = (out / "index.html").read_text()
    assert "BD-rate" in page
    assert "<script" not in page


def test_verdicts_follow_the_order_of_the_contestants() -> None:
    found = verdicts(clip_results(everyone(), points(), METRICS))
    assert list(dict.fromkeys(each.contestant for each in found)) == ["zero-map", "random-map", "crf:aq-mode=3"]
