"""The search of one scene's CRF, on curves that are known."""

from __future__ import annotations

from dataclasses import replace
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
from reelrl.encode.target.search import SceneSearch, SearchRules
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


def searching(models: dict[str, FigureModel], target: QualityTarget, rules: SearchRules, **more: float) -> SceneSearch:
    return SceneSearch(beliefs(models), target, 8, rules, **more)


EAGER, BLIND = SearchRules(thrift=-1), SearchRules(probes=0, check=0.1)


@pytest.mark.parametrize("value", [72.0, 85.0, 93.0, 97.0])
def test_the_target_is_met_within_one_by_few_probes(models: dict[str, FigureModel], value: float) -> None:
    asked: list[float] = []
    decision = searching(models, QualityTarget("vmaf", value), SearchRules(thrift=0.2)).decide(probe(0.5, asked))
    assert abs(vmaf_of(decision.chosen.crf, 0.5) - value) < 1
    assert [crf for crf, _ in decision.probes] == asked
    assert 1 <= len(asked) <= 2
    assert decision.chosen.doubt < decision.predicted.doubt


def test_where_the_expected_curve_is_flat_the_highest_crf_is_chosen(
    models: dict[str, FigureModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SceneSearch, "_falling", lambda _: np.where(CRFS < 30, 98.0, 95.0))
    decision = searching(models, QualityTarget("vmaf", 95.5), BLIND).decide(probe(0, []))
    assert decision.predicted.crf == CRFS[-1]


def test_a_probe_that_takes_more_than_it_saves_is_not_made(models: dict[str, FigureModel]) -> None:
    asked: list[float] = []
    target = QualityTarget("vmaf", 90)
    known = FileBelief(models["vmaf.mean"])
    for _ in range(4):  # scenes of the same kind: the next one is nearly sure
        scene = known.scene(models["vmaf.mean"].centre)
        scene.observe_encode(8, 40.0, vmaf_of(40, 0), 0.3)
        known.learn(scene)
    for cost, probes in ((3.0, 0), (0.01, 1)):
        minds = beliefs(models) | {"vmaf.mean": known.scene(models["vmaf.mean"].centre)}
        decision = SceneSearch(minds, target, 8, SearchRules(probes=1), probe_cost=cost).decide(probe(0, asked))
        assert len(decision.probes) == len(asked) == probes


def test_an_encode_that_is_believed_to_miss_is_made_again_at_a_better_crf(models: dict[str, FigureModel]) -> None:
    search = searching(models, QualityTarget("vmaf", 90), BLIND)
    decision = search.decide(probe(0, []))  # not probed: by features alone, which know nothing
    assert search.worth_a_check(decision)
    crf, hardness = decision.chosen.crf, 0.6
    after = search.revise(decision, vmaf_of(crf, hardness))
    assert after.checks == [(crf, vmaf_of(crf, hardness))]
    assert abs(vmaf_of(after.chosen.crf, hardness) - 90) < 1 < abs(vmaf_of(crf, hardness) - 90)


def test_an_encode_that_is_near_enough_stays_and_still_teaches(models: dict[str, FigureModel]) -> None:
    search = searching(models, QualityTarget("vmaf", 90), BLIND)
    decision = search.decide(probe(0, []))
    after = search.revise(decision, decision.chosen.expected + 0.6)
    assert after.chosen.crf == decision.chosen.crf
    assert after.chosen.doubt < decision.chosen.doubt
    assert decision.chosen.expected < after.chosen.expected <= decision.chosen.expected + 0.6
    assert not search.worth_a_check(after)


def test_an_encode_is_not_made_for_ever(models: dict[str, FigureModel]) -> None:
    search = searching(models, QualityTarget("vmaf", 90), BLIND)
    decision = search.decide(probe(0, []))
    figures = iter([70.0, 98.0, 70.0, 98.0, 70.0])
    while search.worth_a_check(decision):
        decision = search.revise(decision, next(figures))
    assert len(decision.checks) == BLIND.encodes - 1


def test_percentiles_and_capped_scenes_are_not_checked(models: dict[str, FigureModel]) -> None:
    search = searching(models, QualityTarget("vmaf", 90), BLIND)
    decision = search.decide(probe(0, []))
    assert search.worth_a_check(decision)
    assert not search.worth_a_check(replace(decision, capped_by="kbps"))
    assert not replace(search, target=QualityTarget("vmaf", 90, "p5")).worth_a_check(decision)


def test_a_cap_of_the_bitrate_stands_above_the_target(models: dict[str, FigureModel]) -> None:
    target, pixel_rate = QualityTarget("vmaf", 95), 640 * 360 * 30
    free = searching(models, target, EAGER, pixel_rate=pixel_rate).decide(probe(0, []))
    capped = searching(models, target, EAGER, pixel_rate=pixel_rate, max_kbps=free.kbps / 2).decide(probe(0, []))
    assert capped.capped_by == "kbps"
    assert capped.kbps <= free.kbps / 2
    assert capped.chosen.crf > free.chosen.crf
    assert capped.chosen.expected < free.chosen.expected - 1
    assert free.capped_by == ""
    # Nor does an encode that is made again pass it.
    search = searching(models, target, BLIND, pixel_rate=pixel_rate, max_kbps=1.05 * free.kbps)
    again = search.revise(search.decide(probe(0, [])), 85.0)
    assert (again.capped_by, again.kbps <= 1.05 * free.kbps) == ("kbps", True)


def test_what_no_crf_reaches_is_said(models: dict[str, FigureModel]) -> None:
    # Such scenes are far from all that were learned from.
    lowest = searching(models, QualityTarget("vmaf", 99.5), EAGER).decide(probe(6, []))
    assert (lowest.chosen.crf, lowest.capped_by) == (CRFS[0], "lowest CRF")
    highest = searching(models, QualityTarget("vmaf", 5), EAGER).decide(probe(-2, []))
    assert (highest.chosen.crf, highest.capped_by) == (CRFS[-1], "highest CRF")


@pytest.mark.parametrize("searcher", [references.interpolated, references.four_probes])
@pytest.mark.parametrize("value", [70.0, 84.0, 93.0, 97.0])
def test_reference_searchers_find_the_crf_of_a_known_curve(
    searcher: Callable[[float, Callable[[float], float]], tuple[float, int]], value: float
) -> None:
    asked: list[float] = []

    def vmaf(crf: float) -> float:  # as references take it to be: without the last steps that count for more
        return float(100 - 1.5 * np.exp((crf - 28.2) / 11))

    def ask(crf: float) -> float:
        asked.append(crf)
        return vmaf(crf)

    crf, probes = searcher(value, ask)
    assert probes == len(asked) == len(set(asked))
    assert abs(vmaf(crf) - value) < 2
    if searcher is references.interpolated:
        assert vmaf(crf) >= value
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
    assert rows["model"]["probes"] < 2 < rows["four-probes"]["probes"]
    assert rows["model"]["cpu_ratio"] < rows["four-probes"]["cpu_ratio"] / 2
    targets = sorted({outcome.target for outcome in outcomes})
    assert targets[0] < 75
    assert targets[-1] > 92
    assert np.all(np.diff(targets) < 8)
