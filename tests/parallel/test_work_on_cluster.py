"""What users run, on a Ray cluster of two nodes: the same files and records as from one process, nothing left."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import warnings
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from reelrl.act.doom import engines
from reelrl.cli.main import main
from reelrl.content.generated.clips import generated_clip
from reelrl.encode.target.evaluate import TargetPlan, judge
from reelrl.encode.target.fit import CurveFitSettings
from reelrl.encode.target.laboratory import RealEncodes
from reelrl.encode.target.lessons import LessonPlan, lesson_of
from reelrl.encode.target.model_file import save_models
from reelrl.encode.target.train import fit_all
from reelrl.parallel import executor
from reelrl.runs.folder import RunFolder
from tests.encode.target.makers import lessons
from tests.parallel import functions
from tests.parallel.two_nodes import ROOT, driver, nodes
from tests.runs.outcome import outcome
from tests.waiting import HANG_S, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.parallel.two_nodes import TwoNodes

__all__ = ["driver", "nodes"]

pytestmark = [
    pytest.mark.cluster,
    # Sockets and files that Ray leaves to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
pytest.importorskip("ray")


@contextmanager
def unseen(folder: Path) -> Iterator[str]:
    """A name of the folder that only this process can follow: nodes see neither sources nor results in it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# -- matches ---------------------------------------------------------------------------------------------------------

MATCHES = ("collect", "doom", "--players", "2", "--seconds", "1", "--video", "lossless", "--resolution", "RES_160X120")


def test_matches_are_the_same_files_from_everywhere(nodes: TwoNodes, tmp_path: Path) -> None:
    for name in ("cluster", "workers", "here"):
        (tmp_path / name).mkdir()
    with unseen(tmp_path) as ours:
        assert main([*MATCHES, "--matches", "2", "-o", f"{ours}/cluster", "--ray", nodes.address]) == 0
    made = files_in(tmp_path / "cluster")
    assert len([name for name in made if name.startswith("matches/")]) == 6  # two views and labels of each
    assert main([*MATCHES, "--matches", "2", "-o", str(tmp_path / "workers"), "--workers", "2"]) == 0
    assert main([*MATCHES, "--matches", "2", "-o", str(tmp_path / "here"), "--workers", "1"]) == 0
    for other in ("workers", "here"):
        assert {**made, ".lock": b""} == {**files_in(tmp_path / other), ".lock": b""}
    # What is there is not played again, and what is missing is the same match as ever, now in the folder itself.
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "workers" / "matches").rglob("*.*")}
    assert main([*MATCHES, "--matches", "3", "-o", str(tmp_path / "workers"), "--ray", nodes.address]) == 0
    assert main([*MATCHES, "--matches", "3", "-o", str(tmp_path / "here")]) == 0
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())
    assert {**files_in(tmp_path / "workers"), ".lock": b""} == {**files_in(tmp_path / "here"), ".lock": b""}


def test_ctrl_c_leaves_no_engine_on_any_node(nodes: TwoNodes, tmp_path: Path) -> None:
    words = [*MATCHES, "--seconds", "600", "--matches", "8", "-o", str(tmp_path / "data"), "--ray", nodes.address]
    driver = subprocess.Popen(
        [sys.executable, "-m", "reelrl.cli.main", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert driver.stdout is not None
    try:
        until(lambda: len(trainers_of(nodes)) == 2, "no match was on at both nodes")
        driver.send_signal(signal.SIGINT)
        assert any(line.startswith("stop ") for line in driver.stdout)
        driver.send_signal(signal.SIGINT)
        assert driver.wait(HANG_S) == 130
    finally:
        driver.kill()
        driver.stdout.close()
        driver.wait()
    until(lambda: not trainers_of(nodes), "an engine is still there")
    assert not list((tmp_path / "data" / "matches").iterdir())


def trainers_of(nodes: TwoNodes) -> set[int]:
    """Processes that have players and engines at work for this cluster."""
    mark = str(nodes.folder).encode()
    return {trainer for pid, trainer in engines._ours().items() if mark in environment_of(pid)}


def environment_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


# -- quality targets ---------------------------------------------------------------------------------------------------


def test_an_evaluation_of_targets_gives_the_same_outcomes(
    nodes: TwoNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = TargetPlan(presets=(8,), least_height=0)
    wanted = LessonPlan(probes=(28, 50), presets={"8": (22, 39, 61)}, metrics=("vmaf",))

    def judged(work: Any) -> list[dict[str, Any]]:
        scenes = [generated_clip(style, size=(128, 96), frames=12) for style in ("street", "talk", "noise")]
        known = [lesson_of(scene, wanted) for scene in scenes]
        outcomes = judge(known, plan, RealEncodes({scene.name: scene for scene in scenes}), work=work)
        return [{key: value for key, value in asdict(each).items() if "cpu" not in key} for each in outcomes]

    with nodes.work() as work:
        on_cluster = judged(work)
    monkeypatch.setenv("REELRL_CACHE", str(tmp_path / "cache"))
    with executor(1) as here:
        assert judged(here) == on_cluster
    assert {outcome["searcher"] for outcome in on_cluster} == {"model", "interpolated", "four-probes"}


def test_parts_at_a_quality_come_home_and_are_not_coded_again(
    nodes: TwoNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenes = [generated_clip(style, size=(96, 64), frames=40) for style in ("street", "talk", "pan")]
    (tmp_path / "in_96x64.yuv").write_bytes(b"".join(frame.data.tobytes() for clip in scenes for frame in clip))
    save_models(tmp_path / "model.safetensors", fit_all(lessons(6), CurveFitSettings()), {})
    words = ["--target", "vmaf=90", "--model", str(tmp_path / "model.safetensors"), "--preset", "12", "--json"]
    with unseen(tmp_path) as ours:
        encode = ["encode", f"{ours}/in_96x64.yuv", *words]
        # The last step fails: what the nodes have coded waits at home for another try.
        with monkeypatch.context() as patched:
            patched.setattr("reelrl.content.write.video.write_bitstream", _interrupted)
            assert main([*encode, "-o", f"{ours}/cluster.ivf", "--ray", nodes.address]) == 130
        kept = files_in(tmp_path / ".cluster.ivf.parts")
        assert len([name for name in kept if name.endswith(".ivf")]) >= 3
        coded: list[int] = []
        monkeypatch.setattr("reelrl.cli.encode_target.show", lambda facts: coded.append(facts["resumed"]))
        without_json = [word for word in encode if word != "--json"]
        assert main([*without_json, "-o", f"{ours}/cluster.ivf", "--ray", nodes.address, "--resume"]) == 0
        assert main([*encode, "-o", f"{ours}/here.ivf", "--workers", "1"]) == 0
    assert coded[0] >= 3
    assert (tmp_path / "cluster.ivf").read_bytes() == (tmp_path / "here.ivf").read_bytes()


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


# -- trainings ---------------------------------------------------------------------------------------------------------

EPISODES = [
    *("train", "minigop", "--base", "none", "--epochs", "2", "--rollout", "3", "--set", "preset=12", "--set"),
    *("sac.starts=4", "--set", "sac.batch_size=4", "--set", "sac.hidden=[8]", "--set", "qps=[40,44]", "--clip"),
    *(f"generated:{style}?size=64x64&frames=40" for style in ("cuts", "street", "talk", "pan")),
]


def test_rollouts_on_a_cluster_teach_the_same_though_a_node_dies(
    nodes: TwoNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def kill_after_two(self: Any, number: int, *rest: Any) -> Any:
        seen.append(number)
        if number == 1:
            nodes.kill_second()
        return noted(self, number, *rest)

    from reelrl.encode.minigop.train import MiniGopTrainer

    noted = MiniGopTrainer._note
    with monkeypatch.context() as patched:
        patched.setattr(MiniGopTrainer, "_note", kill_after_two)
        assert main([*EPISODES, "--output-dir", str(tmp_path / "cluster"), "--ray", nodes.address]) == 0
    assert seen == list(range(8))
    monkeypatch.setenv("REELRL_CACHE", str(tmp_path / "cache"))
    assert main([*EPISODES, "--output-dir", str(tmp_path / "here")]) == 0
    on_cluster, here = (outcome(RunFolder(tmp_path / name / "0001")) for name in ("cluster", "here"))
    # Not the state of Python's own `random`, which checkpoints hold too: Ray draws from it in the driver.
    for part in ("step", "tensors", "metrics", "episodes"):
        assert on_cluster[part] == here[part]
    final = "final_sac_model.safetensors"
    assert on_cluster["policies"][final] == here["policies"][final]


SUPERBLOCK_EPISODES = [
    *(
        "train",
        "superblock",
        "--rollout",
        "3",
        "--total-iteration",
        "3",
        "--eval-freq",
        "20",
        "--set",
        "learner.hidden=[8]",
    ),
    *("--file", "generated:street?size=128x96&frames=6", "generated:talk?size=128x96&frames=5"),
]


@pytest.mark.parametrize("more", [(), ("--algorithm", "dqn", "--batch-size", "8", "--set", "learner.dqn.starts=10")])
def test_superblock_episodes_on_a_cluster_teach_the_same(
    more: tuple[str, ...], nodes: TwoNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trained(name: str, *place: str) -> dict[str, Any]:
        assert main([*SUPERBLOCK_EPISODES, *more, "--output-dir", str(tmp_path / name), *place]) == 0
        left = outcome(RunFolder(tmp_path / name / "0001"))
        del left["state"]  # with that of Python's own `random`, from which Ray draws in the driver
        return left

    on_cluster = trained("cluster", "--ray", nodes.address)
    monkeypatch.setenv("REELRL_CACHE", str(tmp_path / "cache"))
    assert trained("here") == on_cluster
    assert trained("workers", "--workers", "2") == on_cluster


MATCH_STEPS = [
    *(
        "train",
        "doom",
        "--steps",
        "48",
        "--seed",
        "4",
        "--set",
        "task.max_steps=9",
        "--set",
        "experiment.evaluation=false",
    ),
    *(
        "--set",
        "experiment.on_policy_collected_frames_per_batch=12",
        "--set",
        "experiment.on_policy_n_envs_per_worker=2",
    ),
    *("--set", "experiment.on_policy_minibatch_size=6"),
]


def test_matches_on_a_cluster_teach_the_same_though_a_node_dies(
    nodes: TwoNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Episodes of 9 steps in batches of 6: their engines live on between batches, and are brought back when lost."""
    from reelrl.act.marl.benchmarl.match_tasks import MatchRollouts

    collected: list[int] = []
    collect = MatchRollouts.collect

    def kill_after_two(self: Any, policy: Any) -> Any:
        collected.append(len(trainers_of(nodes)))
        if len(collected) == 3:
            nodes.kill_second()
        return collect(self, policy)

    with monkeypatch.context() as patched:
        patched.setattr(MatchRollouts, "collect", kill_after_two)
        assert main([*MATCH_STEPS, "--output-dir", str(tmp_path / "cluster"), "--ray", nodes.address]) == 0
    # Processes with engines before each batch: the second node may get its first match with the second batch only.
    assert collected in ([0, 1, 2, 1], [0, 2, 2, 1])
    until(lambda: not trainers_of(nodes), "an engine is still there")
    assert main([*MATCH_STEPS, "--output-dir", str(tmp_path / "workers"), "--workers", "2"]) == 0
    assert main([*MATCH_STEPS, "--output-dir", str(tmp_path / "here"), "--spread"]) == 0
    on_cluster, workers, here = (
        outcome(RunFolder(tmp_path / name / "0001")) for name in ("cluster", "workers", "here")
    )
    for part in ("step", "tensors", "metrics", "episodes"):
        assert on_cluster[part] == here[part]
        assert workers[part] == here[part]


SWEEP = {
    "train": "abr",
    "arguments": ["--set=steps=4000", "--set=players=16", "--set=links=10", "--set=validate_every=1", "--set=hidden=8"],
    "search": {"ppo.learning_rate": {"low": 1.0e-4, "high": 1.0e-2, "log": True}, "ppo.epochs": {"low": 1, "high": 3}},
    "figure": "score",
    "prune": False,
    "trials": 3,
}


def test_a_sweep_s_first_trials_and_its_best_are_the_same_side_by_side(nodes: TwoNodes, tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(SWEEP))

    def swept(name: str, *place: str) -> tuple[list[tuple[str, ...]], str]:
        folder = tmp_path / name
        assert main(["sweep", str(tmp_path / "plan.yaml"), "-o", str(folder), "--json", *place]) == 0
        with (folder / "trials.csv").open() as file:
            # Who begins first is the first trial: numbers are not compared, nor what a clock said.
            rows = [(row["value"], row["ppo.learning_rate"], row["ppo.epochs"]) for row in csv.DictReader(file)]
        return sorted(rows), (folder / "best.yaml").read_text()

    alone = swept("alone")
    assert len(set(alone[0])) == 3
    assert swept("workers", "--workers", "2") == alone
    assert swept("cluster", "--ray", nodes.address) == alone


# -- another build -----------------------------------------------------------------------------------------------------

OTHER_BUILD = "opencv-python-headless==4.13.0.92"
"""Carries libaom 3.13.1."""


def test_a_node_with_another_build_of_an_encoder_gets_no_work(nodes: TwoNodes, tmp_path: Path) -> None:
    other = tmp_path / "site"
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(other), OTHER_BUILD]
    installed = subprocess.run(words, capture_output=True, text=True, timeout=HANG_S, check=False)
    if installed.returncode:
        pytest.skip(f"no wheel of another build can be had: {installed.stderr.strip()[-200:]}")
    nodes.kill_second()
    nodes.add_second(PYTHONPATH=os.pathsep.join([str(other), str(ROOT / "src"), str(ROOT)]))
    with nodes.work() as work, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        until(lambda: list(work.map(functions.double, range(2))) and caught)  # goes on working until it has answered
        assert set(work.map(functions.where, range(8))) == {str(nodes.folder / "first")}
    assert "gets no work" in str(caught[0].message)
    assert "aom is missing (libaom 3.13.1 found, 3.14 needed), here 3.14" in str(caught[0].message)
    nodes.kill_second()
