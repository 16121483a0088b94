"""The executor on a Ray cluster of two nodes: the same records as elsewhere, whatever happens to workers and nodes.

The second node has a cache of its own, as a machine without a shared disk has.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from reelrl.cli.main import main
from reelrl.content.clip import Clip
from reelrl.content.generated.clips import generated_clip
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.minigop import evaluate as minigop
from reelrl.encode.minigop.evaluate import MiniGopEvaluationPlan
from reelrl.encode.superblock.contestants import MapContestant
from reelrl.encode.superblock.evaluate import EncodePoint, SuperblockEvaluationPlan, encode_all
from reelrl.errors import ConfigError, WorkerError
from reelrl.parallel import WorkPlace, executor, working_at
from reelrl.parallel.machine_facts import cpu_features
from reelrl.stream.evaluate import Contestant, EvaluationPlan, play_all
from tests.parallel import functions
from tests.parallel.two_nodes import ROOT, driver, nodes
from tests.stream.helpers import bumpy_ladder, links
from tests.waiting import HANG_S, until

if TYPE_CHECKING:
    from tests.parallel.two_nodes import TwoNodes

__all__ = ["driver", "nodes"]

pytestmark = [
    pytest.mark.cluster,
    # Sockets and files that Ray leaves to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
ray = pytest.importorskip("ray")

TIMES = {"seconds", "cpu_s"}


def test_records_errors_and_order_are_those_of_the_other_executors(nodes: TwoNodes) -> None:
    with nodes.work() as work:
        assert list(work.map(functions.double, range(7))) == [0, 2, 4, 6, 8, 10, 12]
        assert sorted(work.as_completed(functions.double, range(5))) == [(0, 0), (1, 2), (2, 4), (3, 6), (4, 8)]
        assert list(work.map(functions.double, [])) == []
        records = work.map(functions.double, [1, -2, -3], name=lambda number: f"the number {number}")
        assert next(records) == 2
        with pytest.raises(ConfigError, match="-2 is below 0") as caught:
            next(records)
        assert caught.value.__notes__ == ["task: the number -2"]
        assert "in double" in str(caught.value.__cause__)
        with pytest.raises(Exception, match="lambda"):
            list(work.map(lambda number: number, [0]))
        assert list(work.map(functions.double, [4])) == [8]  # and the executor goes on
        records = work.map(functions.double, range(99))
        some = [next(records)]
        work.stop()
        some += records
        assert some == [2 * number for number in range(len(some))]
        assert len(some) < 9  # at most two for each core were under way
        work.stopping = False
        both = {str(nodes.folder / name) for name in ("first", "second")}
        until(lambda: set(work.map(functions.where, range(8))) == both, "the second node gets no work")


def test_an_evaluation_gives_the_same_table_everywhere(
    nodes: TwoNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def table(home: str, jobs: int) -> list[dict[str, Any]]:
        # On the cluster the driver's cache is where its first node has it; the others begin with an empty one.
        if home:
            with working_at(WorkPlace(home)):
                return rows(_evaluated(0))
        monkeypatch.setenv("REELRL_CACHE", str(tmp_path / f"cache-{jobs}"))
        return rows(_evaluated(jobs))

    on_cluster = table(nodes.address, 0)
    assert table("", 1) == on_cluster
    assert table("", 2) == on_cluster
    contestants = {row["contestant"] for row in on_cluster}
    assert {"variance-map", "motion-map"} <= contestants
    assert len(on_cluster) == 2 * 2 * len(contestants)


def test_other_evaluations_give_the_same_records_too(
    nodes: TwoNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def points(jobs: int) -> list[dict[str, Any]]:
        clips = [generated_clip(style, size=(96, 64), frames=18) for style in ("street", "cuts")]
        plan = MiniGopEvaluationPlan(qps=(34, 46), encoder=EncoderSettings(preset=12, keyint=161))
        made = minigop.encode_all([minigop.MiniGopContestant.parse("rate-model")], clips, plan, jobs)
        return [{key: value for key, value in point.row().items() if key not in TIMES} for point in made]

    def played(jobs: int) -> dict[str, list[Any]]:
        contestants = [Contestant.parse(name) for name in ("robustmpc", "rate")]
        return play_all(contestants, links(10), [bumpy_ladder()], EvaluationPlan(), jobs)

    with working_at(WorkPlace(nodes.address)):
        on_cluster = points(0), played(0)
    monkeypatch.setenv("REELRL_CACHE", str(tmp_path / "cache"))
    assert (points(1), played(1)) == on_cluster


def test_a_command_writes_the_same_files(nodes: TwoNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clip = "generated:street?size=128x96&frames=4&seed=7"
    words = [
        "evaluate",
        "superblock",
        "--no-vmaf",
        "--only",
        "variance-map",
        "--clips",
        clip,
        "--frames",
        "4",
        "--json",
    ]
    assert main([*words, "--ray", nodes.address, "--out", str(tmp_path / "cluster")]) == 0
    monkeypatch.setenv("REELRL_CACHE", str(tmp_path / "cache"))
    assert main([*words, "--workers", "2", "--out", str(tmp_path / "workers")]) == 0
    tables = [(tmp_path / place / "clips.csv").read_bytes() for place in ("cluster", "workers")]
    assert tables[0] == tables[1]
    assert len(tables[0].splitlines()) > 1


def _evaluated(jobs: int) -> list[EncodePoint]:
    clips = [generated_clip(kind, size=(128, 96), frames=6) for kind in ("street", "talk")]
    contestants = [MapContestant.parse(text) for text in ("variance-map", "motion-map")]
    return encode_all(contestants, clips, SuperblockEvaluationPlan(qps=(36, 48), frames=6), jobs)


def rows(points: list[EncodePoint]) -> list[dict[str, Any]]:
    """All but the seconds that an encode took."""
    plain = [asdict(point) for point in points]
    for record in plain:
        del record["measured"]["seconds"]
    return plain


def test_a_killed_worker_s_task_is_begun_again(nodes: TwoNodes, tmp_path: Path) -> None:
    marks = [tmp_path / name for name in "abcd"]
    with nodes.work() as work:
        assert list(work.map(functions.die_once, marks)) == ["a", "b", "c", "d"]
        with pytest.raises(WorkerError, match=r"begun 4 times and each time its worker or node died") as caught:
            list(work.map(functions.die, range(3)))
        assert caught.value.__notes__ == ["task: 1"]


def test_a_node_killed_in_mid_sweep_changes_nothing(nodes: TwoNodes, tmp_path: Path) -> None:
    tasks = [(tmp_path, number, 0.3) for number in range(24)]
    with nodes.work() as work:
        records = []
        for record in work.map(functions.noted, tasks):
            records.append(record)
            if len(records) == 6:
                nodes.kill_second()
        assert records == [number * number for number in range(24)]
        assert len(work._connection.nodes()) == 1  # type: ignore[attr-defined]


def test_tasks_that_belong_together_go_to_one_worker_and_survive_a_node(nodes: TwoNodes, tmp_path: Path) -> None:
    tasks: list[tuple[int, Path | None]] = [(number, None) for number in range(3)]
    with nodes.work() as work:
        until(lambda: len(set(work.map(functions.where, range(4)))) == 2)  # both nodes may work
        first = list(work.map(functions.own_pid, tasks, near=functions.kind))
        assert first[0] == first[2] != first[1]
        assert list(work.map(functions.own_pid, tasks[::-1], near=functions.kind)) == first[::-1]
        again = list(work.map(functions.own_pid, [(1, tmp_path / "died"), *tasks], near=functions.kind))
        assert again == [again[0], first[0], again[0], first[0]]
        assert again[0] not in first
        nodes.kill_second()
        left: set[int] = set()

        def one_is_left() -> bool:
            now = set(work.map(functions.own_pid, tasks, near=functions.kind))
            left.update(now)
            return len(now) == 1

        until(one_is_left)  # for the one core
        list(work.map(functions.leaves_open, [(0, tmp_path)], near=functions.kind))
    assert (tmp_path / "0.closed").exists()
    until(lambda: not [pid for pid in {*first, *again, *left} if Path(f"/proc/{pid}").exists()], "a worker is left")


def test_a_node_that_comes_later_gets_work(nodes: TwoNodes) -> None:
    nodes.kill_second()
    with nodes.work() as work:
        seen: set[str] = set()
        for number, place in enumerate(work.map(functions.where, range(400))):
            if number == 2:
                nodes.add_second()
            seen.add(place)
            if len(seen) == 2:
                break
        assert len(seen) == 2


def test_a_task_that_hangs_past_its_deadline_is_ended(nodes: TwoNodes, tmp_path: Path) -> None:
    with nodes.work(deadline_s=3.0) as work:
        marks = [tmp_path / name for name in "ab"]
        assert list(work.map(functions.hang_once, marks)) == ["a", "b"]
        work.restarts = 0  # type: ignore[attr-defined]
        with pytest.raises(WorkerError, match="deadline of 3 s") as caught:
            list(work.map(functions.hang, [7]))
        assert caught.value.__notes__ == ["task: 7"]
        assert list(work.map(functions.double, [4])) == [8]


def test_more_than_the_object_store_holds_goes_through_it(nodes: TwoNodes) -> None:
    arrays = [np.full(5 << 20, number, np.int64) for number in range(6)]  # 40 MiB each, 240 through a store of 80
    with nodes.work() as work:
        sums = list(work.map(functions.total, [(array, number) for number, array in enumerate(arrays)]))
    assert sums == [int(array.sum()) + number for number, array in enumerate(arrays)]


def test_a_file_that_a_node_does_not_have_is_sent_to_it(nodes: TwoNodes, tmp_path: Path) -> None:
    clip = generated_clip("street", size=(64, 48), frames=5)
    (tmp_path / "clip.yuv").write_bytes(b"".join(frame.data.tobytes() for frame in clip))
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # A name that only the driver can follow.
        ours = Clip.open(f"/proc/self/fd/{folder}/clip.yuv", size=(64, 48), fps=25)
        with nodes.work() as work:
            assert set(work.map(functions.content_hash, [ours] * 8)) == {clip.content_hash}
    finally:
        os.close(folder)
    received = [path for node in ("first", "second") for path in (nodes.folder / node / "files").glob("*.yuv")]
    assert 1 <= len(received) <= 2  # once for each node that read it


def test_a_driver_that_was_killed_goes_on_where_it_stood(nodes: TwoNodes, tmp_path: Path) -> None:
    script = tmp_path / "driver.py"
    script.write_text(
        "import sys\nfrom pathlib import Path\nfrom reelrl.parallel import WorkPlace, executor, working_at\n"
        "from tests.parallel import functions\n"
        "tasks = [(Path(sys.argv[2]), number, 0.3) for number in range(12)]\n"
        "with working_at(WorkPlace(sys.argv[1])), executor() as work:\n"
        "    print(list(work.map(functions.noted, tasks)))\n"
    )
    folder = tmp_path / "made-by-two-drivers"
    folder.mkdir()
    stored_in = nodes.folder / "first" / "noted" / folder.name
    command = [sys.executable, str(script), nodes.address, str(folder)]
    first = subprocess.Popen(command, cwd=ROOT)
    until(lambda: len(list(stored_in.glob("[0-9]*.txt"))) >= 4)  # a file that is being written begins with a dot
    first.kill()
    first.wait()
    stored = {path.stem for path in stored_in.glob("[0-9]*.txt")}
    second = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG_S, check=True)
    assert second.stdout.strip() == str([number * number for number in range(12)])
    # What was stored when the driver died, by either node, was not made again.
    times = [path.name.partition(".")[0] for path in folder.iterdir()]
    made_again = {number: times.count(number) for number in stored if times.count(number) != 1}
    assert not made_again, (sorted(path.name for path in folder.iterdir()), sorted(stored))


def test_a_node_that_would_give_other_bytes_gets_no_work(nodes: TwoNodes, tmp_path: Path) -> None:
    nodes.kill_second()
    other = tmp_path / "other"
    subprocess.run(["cp", "-r", str(ROOT / "src"), str(other)], check=True)
    version = other / "reelrl" / "__init__.py"
    version.write_text(version.read_text().replace('__version__ = "', '__version__ = "9.'))
    nodes.add_second(PYTHONPATH=os.pathsep.join([str(other), str(ROOT)]))
    with nodes.work() as work, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        until(lambda: list(work.map(functions.double, range(2))) and caught)  # goes on working until it has answered
        assert set(work.map(functions.where, range(8))) == {str(nodes.folder / "first")}
    assert "gets no work" in str(caught[0].message)
    assert "reelrl is 9." in str(caught[0].message)
    nodes.kill_second()


@pytest.mark.skipif("X86_V4" not in cpu_features(), reason="there is nothing to switch off")
def test_a_node_with_other_cpu_features_is_reported(nodes: TwoNodes) -> None:
    nodes.kill_second()
    nodes.add_second(NPY_DISABLE_CPU_FEATURES="X86_V4")
    with nodes.work() as work, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        until(lambda: len({*work.map(functions.where, range(4))}) == 2)
    assert "cpu is" in str(caught[0].message)
    nodes.kill_second()


def test_ctrl_c_ends_tasks_on_all_nodes(nodes: TwoNodes, tmp_path: Path) -> None:
    script = tmp_path / "driver.py"
    script.write_text(
        "import sys\nfrom pathlib import Path\nfrom reelrl.parallel import WorkPlace, executor, working_at\n"
        "from tests.parallel import functions\n"
        "try:\n"
        "    with working_at(WorkPlace(sys.argv[1])), executor() as work:\n"
        "        list(work.map(functions.wait_for_ever, [Path(sys.argv[2])] * 8))\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(130)\n"
    )
    folder = tmp_path / "tasks"
    folder.mkdir()
    driver = subprocess.Popen([sys.executable, str(script), nodes.address, str(folder)], cwd=ROOT)
    until(lambda: len(list(folder.glob("*.started"))) == 2)
    tasks = [int(path.stem) for path in folder.glob("*.started")]
    driver.send_signal(signal.SIGINT)
    assert driver.wait(HANG_S) == 130
    until(lambda: not [number for number in tasks if Path(f"/proc/{number}").exists()], "a worker is still there")
    assert sorted(int(path.stem) for path in folder.glob("*.closed")) == sorted(tasks)


def test_the_queue_of_a_cluster_is_bounded(nodes: TwoNodes) -> None:
    with nodes.work() as work:
        largest = 0

        def watch() -> None:
            nonlocal largest
            while not over.wait(0.01):
                largest = max(largest, len(ray._private.worker.global_worker.core_worker.get_all_reference_counts()))

        over = threading.Event()
        thread = threading.Thread(target=watch)
        thread.start()
        try:
            assert sum(1 for _ in work.map(functions.double, range(500))) == 500
        finally:
            over.set()
            thread.join()
    assert largest < 50


def test_a_cluster_of_one_s_own_is_seen_by_nobody_else(tmp_path: Path) -> None:
    script = tmp_path / "own.py"
    script.write_text(
        "import time\nfrom pathlib import Path\nimport psutil\n"
        "from reelrl.parallel import WorkPlace, executor, working_at\nfrom tests.parallel import functions\n"
        "with working_at(WorkPlace('local')), executor() as work:\n"
        "    print(list(work.map(functions.double, [4])))\n"
        "    for process in psutil.Process().children(recursive=True):\n"
        "        for each in process.net_connections():\n"
        "            if each.status == 'LISTEN':\n"
        "                print('listens', each.laddr.ip)\n"
    )
    said = subprocess.run(
        [sys.executable, str(script)], cwd=ROOT, capture_output=True, text=True, timeout=HANG_S, check=True
    ).stdout
    assert said.startswith("[8]")
    listening = {line.split()[1] for line in said.splitlines() if line.startswith("listens")}
    assert listening
    assert listening <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def test_no_cluster_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with working_at(WorkPlace("127.0.0.1:1")), pytest.raises(ConfigError, match="cannot connect to a Ray cluster"):
        executor()


def test_ray_that_was_imported_too_early_is_one_line_and_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray._private import ray_constants

    monkeypatch.setattr(ray_constants, "ENABLE_RAY_CLUSTER", True)
    with working_at(WorkPlace("127.0.0.1:1")), pytest.raises(ConfigError, match="Ray was imported before"):
        executor()


def test_the_example_of_a_cluster_is_one_that_ray_takes() -> None:
    import yaml
    from ray.autoscaler._private.util import prepare_config, validate_config

    example = yaml.safe_load((ROOT / "examples" / "cluster" / "cluster.yaml").read_text())
    validate_config(prepare_config(example))


def test_the_slurm_script_is_bash() -> None:
    subprocess.run(["bash", "-n", str(ROOT / "examples" / "cluster" / "slurm.sh")], check=True)


def test_parts_of_a_file_give_the_same_bytes_and_come_home(nodes: TwoNodes, tmp_path: Path) -> None:
    scenes = [generated_clip(style, size=(96, 64), frames=40) for style in ("street", "talk", "pan")]
    (tmp_path / "in_96x64.yuv").write_bytes(b"".join(frame.data.tobytes() for clip in scenes for frame in clip))
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # Names that only the driver can follow: neither the source nor the folder of parts is seen by the nodes.
        ours = f"/proc/self/fd/{folder}"
        words = ["encode", f"{ours}/in_96x64.yuv", "--crf", "40", "--preset", "12", "--json"]
        assert main([*words, "-o", f"{ours}/cluster.ivf", "--ray", nodes.address]) == 0
        assert main([*words, "-o", f"{ours}/here.ivf", "--workers", "1"]) == 0
    finally:
        os.close(folder)
    assert (tmp_path / "cluster.ivf").read_bytes() == (tmp_path / "here.ivf").read_bytes()
