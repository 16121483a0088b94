"""What workers gain, what Ray costs, what ten thousand tasks hold in memory, and what a cluster would take.

    python benchmarks/scale.py workers     an evaluation by one process and by two workers
    python benchmarks/scale.py overhead    tasks of one second: two worker processes against a Ray cluster of two nodes
    python benchmarks/scale.py queue       10,000 tasks that share a clip on the cluster: memory of the driver
    python benchmarks/scale.py predict     an evaluation on two nodes, beside what the model of a cluster says
    python benchmarks/scale.py dataset     10,000 clips at 1080p: hours, bytes and cost, from encodes measured here

Without a word: all of them. Ray runs on this machine, on the loopback address, two nodes of one core each.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))  # workers import the tasks of this file by its name
os.environ.setdefault("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # loopback only; before Ray is imported
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

from _cluster_model import ClusterModel

from reelrl.content.generated.clips import generated_clip
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.codecs.whole_clip import encode_clip
from reelrl.parallel import WorkPlace, executor, working_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from reelrl.content.clip import Clip
    from reelrl.parallel import Executor

STYLES = ("street", "talk", "pan", "water")
MIB = 1 << 20
USD_PER_CORE_H = 0.04  # about what a virtual core is let for; put in your own
SOURCE_MBPS = 20  # of a clip as it is stored


def main() -> None:
    parts: dict[str, Callable[[int], None]] = {
        "workers": workers,
        "overhead": overhead,
        "queue": queue,
        "predict": predict,
        "dataset": dataset,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(parts)} (default: all)")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    for name in args.parts or parts:
        print(f"{name:9}load {os.getloadavg()[0]:.1f}", flush=True)
        parts[name](args.repeats)


# -- one machine -----------------------------------------------------------------------------------------------------


def workers(repeats: int) -> None:
    """Best of interleaved repeats, each with an empty cache; workers are started before the clock."""
    best = {1: (float("inf"), [0.0]), 2: (float("inf"), [0.0])}
    for _ in range(repeats):
        for jobs in best:
            best[jobs] = min(best[jobs], _evaluation(jobs))
    (one_s, one_cpu), (two_s, two_cpu) = best[1], best[2]
    print(f"  one process {one_s:.2f} s   two workers {two_s:.2f} s   ratio {one_s / two_s:.2f}")
    # What others leave of two cores is not the executor's: with both to themselves, tasks take their CPU time.
    ideal = sum(one_cpu) / ClusterModel(2).wall_s(two_cpu)
    print(f"  CPU of the tasks {sum(one_cpu):.2f} s and {sum(two_cpu):.2f} s: on two free cores {ideal:.2f}")


def _evaluation(jobs: int) -> tuple[float, list[float]]:
    """Wall time, and the CPU time of each task."""
    with tempfile.TemporaryDirectory() as cache, _environment(REELRL_CACHE=cache), executor(jobs) as work:
        tasks = _encode_tasks()
        list(work.map(encode_seconds, tasks[:2]))  # imports, self-tests of the encoders
        started_s = time.perf_counter()
        cpu_s = [cpu for _, cpu in work.map(encode_seconds, tasks)]
        return time.perf_counter() - started_s, cpu_s


def _encode_tasks() -> list[tuple[str, int, int]]:
    """(style, seed, QP): 24 encodes of half a second or so."""
    return [(style, seed, qp) for style in STYLES for seed in (1, 2) for qp in (28, 40, 52)]


def encode_seconds(task: tuple[str, int, int]) -> tuple[float, float]:
    """What `reel evaluate superblock` does for one point without a cache; returns its wall and CPU time."""
    style, seed, qp = task
    started_s, started_cpu_s = time.perf_counter(), time.process_time()
    clip = generated_clip(style, size=(352, 288), frames=12, seed=seed).load()
    encode_clip(clip, EncoderSettings(backend="aom", preset=10, qp=qp, picture_qp=True))
    return time.perf_counter() - started_s, time.process_time() - started_cpu_s


# -- Ray -------------------------------------------------------------------------------------------------------------


@contextmanager
def _two_nodes() -> Iterator[Executor]:
    from ray.cluster_utils import Cluster

    node = {
        "num_cpus": 1,
        "object_store_memory": 100 * MIB,
        "node_ip_address": "127.0.0.1",
        "include_dashboard": False,
    }
    cluster = Cluster(initialize_head=True, head_node_args=node)
    try:
        cluster.add_node(**node)
        with working_at(WorkPlace(cluster.address)), executor() as work:
            while len({*work.map(process_id, range(6))}) < 2:  # until both nodes have answered
                pass
            yield work
    finally:
        cluster.shutdown()


def process_id(_: int) -> int:
    time.sleep(0.2)
    return os.getpid()


def wait_a_second(_: int) -> None:
    time.sleep(1.0)


def overhead(repeats: int) -> None:
    """Tasks that wait: they take a second however busy the machine is, so what is more is the executor's."""
    tasks = range(20)
    best = {"workers": float("inf"), "ray": float("inf")}
    with executor(2) as local, _two_nodes() as cluster:
        for name, work in (("workers", local), ("ray", cluster)):
            list(work.map(wait_a_second, range(2)))
            for _ in range(repeats):
                best[name] = min(best[name], _seconds(partial(_do_all, work, tasks)))
    more = 100 * (best["ray"] / best["workers"] - 1)
    print(f"  20 tasks of 1 s   two workers {best['workers']:.2f} s   two nodes {best['ray']:.2f} s   {more:+.1f} %")


def _do_all(work: Executor, tasks: Sequence[int]) -> None:
    for _ in work.map(wait_a_second, tasks):
        pass


def queue(_: int, tasks: int = 10_000) -> None:
    import psutil

    clip = generated_clip("street", size=(352, 288), frames=30).load()
    process = psutil.Process()
    with _two_nodes() as work:
        list(work.map(count_frames, [clip] * 100))
        before = process.memory_info().rss
        started_s = time.perf_counter()
        peaks = [process.memory_info().rss for _ in work.map(count_frames, [clip] * tasks)]
        took_s = time.perf_counter() - started_s
    tenth = max(peaks[: tasks // 10])
    print(
        f"  {tasks} tasks, {1000 * took_s / tasks:.1f} ms each   driver before {before / MIB:.0f} MiB   "
        f"peak of the first tenth {tenth / MIB:.0f}   of all {max(peaks) / MIB:.0f}"
    )


def count_frames(clip: Clip) -> int:
    return clip.frame_count


def predict(repeats: int) -> None:
    """Task times from a run before, and from the run itself; the cluster's overhead from empty tasks."""
    tasks = _encode_tasks()
    with _two_nodes() as work:
        before = _walls(work, tasks)[1]  # both nodes import and test their encoders; not counted
        for _ in range(repeats):
            empty = _seconds(lambda: list(work.map(nothing, range(200)))) / 100  # two cores share them
            model = ClusterModel(2, overhead_s=empty)
            took, itself = _walls(work, tasks)
            by_before, by_itself = (model.wall_s(times) for times in (before, itself))
            print(
                f"  {len(tasks)} encodes of {min(itself):.2f} to {max(itself):.2f} s on two nodes {took:.1f} s   "
                f"predicted by the run before {by_before:.1f} s, {100 * (by_before / took - 1):+.1f} %   "
                f"by its own task times {by_itself:.1f} s, {100 * (by_itself / took - 1):+.1f} %"
            )
            before = itself


def _walls(work: Executor, tasks: Sequence[tuple[str, int, int]]) -> tuple[float, list[float]]:
    """Of all tasks together, and of each."""
    started_s = time.perf_counter()
    times = [wall_s for wall_s, _ in work.map(encode_seconds, tasks)]
    return time.perf_counter() - started_s, times


def nothing(_: int) -> None:
    return None


# -- on paper --------------------------------------------------------------------------------------------------------


def dataset(_: int, clips: int = 10_000, frames: int = 150, qps: int = 4) -> None:
    """Each clip is a task: decoded once, encoded at all QPs, scored."""
    sample = generated_clip("street", size=(1920, 1080), frames=12).load()
    settings = EncoderSettings(backend="svtav1", preset=8, qp=36)
    encode_clip(sample.window(0, 4), settings)
    started_s = time.process_time()  # CPU: what a core of its own would take
    encode_clip(sample, settings)
    frame_s = (time.process_time() - started_s) / sample.frame_count
    encode_s = frame_s * frames
    task_s = encode_s * qps
    source_bytes = SOURCE_MBPS * 1e6 / 8 * frames / 30
    core_h = clips * task_s / 3600
    print(f"  1080p, SVT-AV1 preset 8, one thread: {1 / frame_s:.1f} frames/s, {3600 / encode_s:.0f} encodes an hour")
    print(f"  {clips} clips x {qps} QPs x {frames} frames: {core_h:.0f} core-hours, {core_h * USD_PER_CORE_H:.0f} USD")
    print(f"  sources {clips * source_bytes / 1e9:.0f} GB, sent once; records {clips * qps * 1000 / 1e6:.0f} MB")
    chance = np.random.default_rng(0)
    lengths = (task_s * chance.lognormal(0, 0.4, clips)).tolist()  # content differs: about a factor of 1.5 either way
    for cores in (64, 256, 1024):
        plain = ClusterModel(cores, 0.01).wall_s(lengths)
        rough = [
            ClusterModel(cores, 0.01, straggler_share=0.01, failures_per_h=0.02, cache_hits=hits).wall_s(lengths, seed)
            for seed in range(3)
            for hits in (0.0, 0.5)
        ]
        without, half = statistics.mean(rough[::2]), statistics.mean(rough[1::2])
        network = clips * source_bytes * 8 / plain / 1e9
        print(
            f"  {cores:5} cores: {plain / 3600:.2f} h   with stragglers and failures {without / 3600:.2f} h   "
            f"half of it cached {half / 3600:.2f} h   network {network:.2f} Gbit/s"
        )


# -- what several parts use --------------------------------------------------------------------------------------------


def _seconds(work: Callable[[], Any]) -> float:
    started_s = time.perf_counter()
    work()
    return time.perf_counter() - started_s


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


if __name__ == "__main__":
    # Tasks are pickled by the name of this module, which must not be __main__.
    import scale

    scale.main()
