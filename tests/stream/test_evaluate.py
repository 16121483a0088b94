"""Intervals, the evaluation command and what it leaves behind."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from reelrl.cli.main import main
from reelrl.errors import ConfigError, ReelError
from reelrl.report.intervals import mean_interval, paired_interval
from reelrl.stream.controllers.protocol import EpisodeInfo, Session
from reelrl.stream.data.traces import write_trace
from reelrl.stream.evaluate import Contender, Contestant, EvaluationPlan, play_all, summarise
from tests.report.test_page import outside_sources
from tests.stream.helpers import bumpy_ladder, links

if TYPE_CHECKING:
    from pathlib import Path


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for trial in range(200):
        interval = mean_interval(rng.normal(3.0, 1.0, 60), seed=trial, resamples=500)
        hits += interval.low <= 3.0 <= interval.high
    assert 0.90 <= hits / 200 <= 0.985


def test_a_paired_interval_sees_a_small_steady_difference() -> None:
    rng = np.random.default_rng(1)
    content = rng.normal(0.0, 5.0, 100)
    ours = content + 0.1 + rng.normal(0.0, 0.05, 100)
    assert paired_interval(ours, content).low > 0.05
    assert mean_interval(ours).low < 0.0


def test_pairs_must_match() -> None:
    with pytest.raises(ConfigError, match="same content"):
        paired_interval(np.zeros(3), np.zeros(4))
    with pytest.raises(ConfigError, match="finite"):
        mean_interval(np.array([1.0, np.nan]))


def test_members_are_averaged_trace_by_trace() -> None:
    contestants = [
        Contestant.parse("both=bba(5,10),bba(10,20)"),
        Contestant.parse("bba(5,10)"),
        Contestant.parse("bba(10,20)"),
    ]
    traces = links(5)
    played = play_all(contestants, traces, [bumpy_ladder()], EvaluationPlan())
    lines = {line.name: line for line in summarise(contestants, played, "bba(5,10)")}
    assert lines["both"].qoe.mean == pytest.approx((lines["bba(5,10)"].qoe.mean + lines["bba(10,20)"].qoe.mean) / 2)
    assert lines["bba(5,10)"].paired is None
    terms = lines["both"]
    assert terms.qoe.mean == pytest.approx(terms.quality - terms.rebuffer - terms.smooth)


@pytest.mark.slow
def test_processes_change_nothing() -> None:
    contestants = [Contestant.parse("robustmpc"), Contestant.parse("rate")]
    traces = links(10)
    serial = play_all(contestants, traces, [bumpy_ladder()], EvaluationPlan(), jobs=1)
    assert play_all(contestants, traces, [bumpy_ladder()], EvaluationPlan(), jobs=2) == serial


def test_a_look_at_test_traces_is_logged_beside_the_results_and_where_one_says(tmp_path: Path) -> None:
    for name in ("test", "train"):
        (tmp_path / name).mkdir()
        write_trace(links(3)[0], tmp_path / name / "link.json")
    for name, more in (("test", ["--log-run", str(tmp_path / "looks.jsonl")]), ("test", []), ("train", [])):
        words = ["--traces", str(tmp_path / name), "--ladder", "nominal", "--out", str(tmp_path / f"out-{name}")]
        assert main(["evaluate", "abr", "lowest", "bba", *words, "--note", "first", *more]) == 0
    looks = [json.loads(line) for line in (tmp_path / "looks.jsonl").read_text().splitlines()]
    beside = [json.loads(line) for line in (tmp_path / "out-test" / "test-runs.jsonl").read_text().splitlines()]
    assert looks == beside[:1]
    assert len(beside) == 2
    assert looks[0]["note"] == "first"
    assert [line["name"] for line in looks[0]["lines"]] == [line["name"] for line in beside[1]["lines"]]
    assert not (tmp_path / "out-train" / "test-runs.jsonl").exists()


def test_what_a_controller_warns_of_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Twenty sessions are three tasks, and the page plays some of them again."""
    links_folder, ladder = tmp_path / "links", tmp_path / "ladder.json"
    links_folder.mkdir()
    for number, trace in enumerate(links(20)):
        write_trace(trace, links_folder / f"{number}.json")
    ladder.write_text('{"bitrates_kbps": [300, 1000], "chunk_s": 20, "chunks": 4}', encoding="utf-8")
    words = ["--traces", str(links_folder), "--ladder", str(ladder), "--out", str(tmp_path / "out")]
    assert main(["evaluate", "abr", "scalefree", *words]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "outside" in line]
    assert len(told) == 1
    assert told[0].startswith("note   scale-free.safetensors is used outside what it was trained on: seconds per chunk")


def test_what_version_0_1_called_a_session_is_still_there() -> None:
    assert Session is EpisodeInfo


@pytest.mark.slow
def test_the_command_leaves_a_table_figures_and_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    for number, trace in enumerate(links(6)):
        write_trace(trace, folder / f"{number}.json")
    out = tmp_path / "out"
    names = ["lowest", "robustmpc", "oracle"]
    assert main(["evaluate", "abr", *names, "--traces", str(folder), "--ladder", "nominal", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "oracle (knows the future)" in printed
    assert "of optimum" in printed
    summary = json.loads((out / "summary.json").read_text())
    assert summary["lines"][0]["name"] == "oracle"
    with (out / "sessions.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 18
    page = (out / "index.html").read_text()
    best = summary["lines"][1]["name"]
    assert page.index(f"<h1>{best} ") < page.index('class="forest"') < page.index("<table>")
    assert page.count("<polyline") == 9  # three distributions; bandwidth, bitrate and buffer of two sessions
    assert outside_sources(page) == []


@pytest.mark.slow
def test_one_table_over_every_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    for part in ("test/one", "train/other"):
        (data / "traces" / part).mkdir(parents=True)
        for number in range(12):
            write_trace(links(4)[number % 4], data / "traces" / part / f"{number}.json")
    monkeypatch.setenv("REELRL_DATA", str(data))
    out = tmp_path / "out"
    assert main(["evaluate", "abr", "lowest", "bba", "robustmpc", "--every-set", "--out", str(out)]) == 0
    sets = json.loads((out / "sets.json").read_text())
    assert list(sets) == ["test: one", "held out of other", "generated mobile", "generated outages"]
    assert all(len(lines) == 3 for lines in sets.values())
    assert (out / "sets.md").read_text().count("\n") == 2 + 3 * len(sets)
    assert (out / "test-one" / "test-runs.jsonl").exists()
    assert not (out / "generated-mobile" / "test-runs.jsonl").exists()
    assert "generated outages: 60 traces" in capsys.readouterr().out
    words = ["--traces", str(data), "--out", str(out)]
    assert main(["evaluate", "abr", "lowest", "--every-set", *words]) == 1
    assert "give one of the two" in capsys.readouterr().err


def test_what_is_not_proven_to_be_the_optimum_is_called_best_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody can plan for noise."""
    write_trace(links(3)[0], tmp_path / "link.json")
    words = ["--traces", str(tmp_path / "link.json"), "--ladder", "nominal", "--out", str(tmp_path / "out")]
    assert main(["evaluate", "abr", "lowest", "oracle", *words, "--noise"]) == 0
    printed = capsys.readouterr().out
    page = (tmp_path / "out" / "index.html").read_text().partition("<code>reel")[0]
    for shown in (printed, page):
        assert "best found (knows the future)" in shown
        assert "of best found" in shown
        assert "oracle" not in shown
        assert "optimum" not in shown
    line = next(
        line for line in json.loads((tmp_path / "out" / "summary.json").read_text())["lines"] if line["privileged"]
    )
    assert not line["optimum"]


def test_traces_are_made_described_and_converted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = tmp_path / "made"
    for kind in ("markov", "mobile", "outages"):
        assert main(["traces", "make", kind, "--count", "2", "--duration", "60", "-o", str(made)]) == 0
    assert main(["traces", str(made), "--json", "--figure", str(tmp_path / "set.html")]) == 0
    stats = json.loads(capsys.readouterr().out.split("\n", 6)[-1])
    assert len(stats) == 6
    assert (
        main(["traces", "convert", str(made / "mobile-0000.json"), "--format", "mahimahi", "-o", str(tmp_path / "m")])
        == 0
    )
    assert main(["traces", str(tmp_path / "m")]) == 0
    assert main(["traces", "make", "magic", "-o", str(made)]) == 1


def test_a_misspelt_reference_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_trace(links(1)[0], tmp_path / "link.json")
    words = ["--traces", str(tmp_path / "link.json"), "--ladder", "nominal", "--out", str(tmp_path / "out")]
    assert main(["evaluate", "abr", "lowest", "bba", *words, "--reference", "bbb"]) == 1
    assert "--reference bbb is not among those compared; did you mean 'bba'?" in capsys.readouterr().err


def test_two_contestants_of_one_name_are_refused() -> None:
    twins = [Contestant.parse("x=bba"), Contestant.parse("x=mpc")]
    with pytest.raises(ConfigError, match="two contestants are called 'x'; name one otherwise"):
        play_all(twins, links(3)[:1], [bumpy_ladder()], EvaluationPlan())


@pytest.mark.parametrize("unknown", ["nobody", "runs/none"])
def test_a_controller_that_is_not_there_is_named_before_anything_is_played(unknown: str) -> None:
    """The error is about the name, not about a task that happened to come to it first."""
    contestants = [Contestant.parse("lowest"), Contestant.parse(unknown)]
    with pytest.raises(ReelError, match=unknown) as raised:
        play_all(contestants, links(3)[:1], [bumpy_ladder()], EvaluationPlan())
    assert not getattr(raised.value, "__notes__", [])


def test_what_version_0_1_called_a_contestant_is_still_there() -> None:
    assert Contender is Contestant


def test_a_label_with_arguments_is_refused() -> None:
    with pytest.raises(ConfigError, match="leave its brackets out"):
        Contestant.parse("scalefree(1)=policy.safetensors")
    assert Contestant.parse("mine=a.safetensors,bba(5,10)").members == ("a.safetensors", "bba(5,10)")
