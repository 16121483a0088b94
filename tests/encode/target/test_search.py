"""The search of one scene's CRF, on curves that are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from reelrl.encode.target import references
from reelrl.encode.target.evaluate import TargetPlan, judge, summary
from reelrl.encode.target.fit import fitted
from reelrl.encode.target.goal import QualityTarget
from reelrl.encode.target.laboratory import MeasuredCurves
from reelrl.encode.target.lessons import BITS, PROBE, CurvePoint
from reelrl.encode.target.model import CRFS, FigureModel, FileBelief, SceneBelief
from reelrl.encode.target.search import SearchRules, search
from tests.encode.target.makers import COSTS, lessons, vmaf_of

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

LEARNED = lessons(20)


@pytest.fixture(scope="module")
def models() -> dict[str, FigureModel]:
    return {name: fitted(name, LEARNED) for name in ("vmaf.mean", BITS)}


def beliefs(models: dict[str, FigureModel]) -> dict[str, SceneBelief]:
    return {name: FileBelief(model).scene(model.centre) for name, model in models.items()}


def probe(hardness: float, asked: list[float]) -> Callable[[float], CurvePoint]:
    def ask(crf: float) -> CurvePoint:
        asked.append(crf)
        return CurvePoint(PROBE, crf, {"vmaf.mean": vmaf_of(crf, hardness + 0.1), BITS: -2 - crf / 10}, 0.2, COSTS)

    return ask


@pytest.mark.parametrize("value", [72.0, 85.0, 93.0, 97.0])
def test_the_target_is_met_within_one_by_few_probes(models: dict[str, FigureModel], value: float) -> None:
    asked: list[float] = []
    decision = search(beliefs(models), QualityTarget("vmaf", value), 8, probe(0.5, asked))
    assert abs(vmaf_of(decision.chosen.crf, 0.5) - value) < 1
    assert [crf for crf, _ in decision.probes] == asked
    assert 1 <= len(asked) <= 2
    assert decision.chosen.doubt < decision.predicted.doubt


def test_who_is_sure_makes_no_probe(models: dict[str, FigureModel]) -> None:
    asked: list[float] = []
    decision = search(beliefs(models), QualityTarget("vmaf", 90), 8, probe(0, asked), SearchRules(sure=100))
    assert asked == []
    assert decision.chosen == decision.predicted


def test_a_cap_of_the_bitrate_stands_above_the_target(models: dict[str, FigureModel]) -> None:
    target, pixel_rate = QualityTarget("vmaf", 95), 640 * 360 * 30
    free = search(beliefs(models), target, 8, probe(0, []), pixel_rate=pixel_rate)
    capped = search(beliefs(models), target, 8, probe(0, []), pixel_rate=pixel_rate, max_kbps=free.kbps / 2)
    assert capped.capped_by == "kbps"
    assert capped.kbps <= free.kbps / 2
    assert capped.chosen.crf > free.chosen.crf
    assert capped.chosen.expected < free.chosen.expected - 1
    assert free.capped_by == ""


def test_what_no_crf_reaches_is_said(models: dict[str, FigureModel]) -> None:
    eager = SearchRules(sure=0, worth=2)  # such scenes are far from all that were learned from
    lowest = search(beliefs(models), QualityTarget("vmaf", 99.5), 8, probe(6, []), eager)
    assert (lowest.chosen.crf, lowest.capped_by) == (CRFS[0], "lowest CRF")
    highest = search(beliefs(models), QualityTarget("vmaf", 5), 8, probe(-2, []), eager)
    assert (highest.chosen.crf, highest.capped_by) == (CRFS[-1], "highest CRF")


@pytest.mark.parametrize("searcher", [references.interpolated, references.four_probes])
@pytest.mark.parametrize("value", [70.0, 84.0, 93.0, 97.0])
def test_reference_searchers_find_the_crf_of_a_known_curve(
    searcher: Callable[[float, Callable[[float], float]], tuple[float, int]], value: float
) -> None:
    asked: list[float] = []

    def ask(crf: float) -> float:
        asked.append(crf)
        return vmaf_of(crf, 0.3)

    crf, probes = searcher(value, ask)
    assert probes == len(asked) == len(set(asked))
    assert abs(vmaf_of(crf, 0.3) - value) < 2
    if searcher is references.interpolated:
        assert vmaf_of(crf, 0.3) >= value
    else:
        assert probes <= 4


@pytest.mark.parametrize("searcher", [references.interpolated, references.four_probes])
def test_reference_searchers_end_where_the_target_is_out_of_reach(
    searcher: Callable[[float, Callable[[float], float]], tuple[float, int]],
) -> None:
    assert searcher(99.9, lambda crf: 90 - crf / 10)[0] <= references.LOW + 1
    assert searcher(20.0, lambda crf: 99 - crf / 10)[0] >= references.HIGH - 1


def test_the_model_is_judged_on_sources_that_it_was_not_fitted_to() -> None:
    some = lessons(8, seed=3)
    outcomes = list(judge(some, TargetPlan(presets=(8,)), MeasuredCurves()))
    rows = {row["searcher"]: row for row in summary(outcomes)}
    assert rows.keys() == {"model", "interpolated", "four-probes"}
    assert all(row["scenes"] == len(some) for row in rows.values())
    assert rows["model"]["within"] > 0.9
    assert rows["model"]["probes"] < 1.5 < rows["four-probes"]["probes"]
    assert rows["model"]["cpu_ratio"] < 0.6
    targets = sorted({outcome.target for outcome in outcomes})
    assert targets[0] < 75
    assert targets[-1] > 92
    assert np.all(np.diff(targets) < 8)
