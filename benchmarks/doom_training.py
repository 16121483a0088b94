"""Steps a second of `reel train doom` against its engines alone, and against BenchMARL's own collector, in one run.

    python benchmarks/doom_training.py                                     four matches
    python benchmarks/doom_training.py --matches 64 --batch 4096 --minibatch 1024 --device cuda

  bare      the matches alone: actions drawn beforehand, pictures written, nobody looks
  restless  the same where engines that wait for each other do not sleep, as on as many cores as engines
  collect   the same with the policy: pictures stacked, actions chosen, everything recorded for the learner
  plain     whole training as BenchMARL does it: matches one after the other, then the learner
  strict    ours, waiting for the learner
  beside    ours, the learner at work while engines play: a batch late

A figure is the best of its way's rounds, because other work on the machine can only slow one down. Shares are of
figures of the same run. Where only matches play, the CPU time of players and engines stands beside it, in ms a step.
"""

from __future__ import annotations

import argparse
import math
import os
import time
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import torch

from reelrl.act.doom import engines, match
from reelrl.act.doom.match_batch import MatchBatch
from reelrl.act.marl import settings as doom_training
from reelrl.act.marl.benchmarl.train import DoomExperiment

if TYPE_CHECKING:
    from collections.abc import Callable

    from reelrl.act.marl.settings import DoomTraining


ACTIONS = 8


class PlainExperiment(DoomExperiment):
    """BenchMARL's own collector and video in the batch."""

    def _setup_algorithm(self) -> None:
        super(DoomExperiment, self)._setup_algorithm()

    def _setup_collector(self) -> None:
        super(DoomExperiment, self)._setup_collector()


def settings(args: argparse.Namespace) -> DoomTraining:
    usual = doom_training.load()
    experiment = {
        **usual.experiment,
        "evaluation": False,
        "checkpoint_interval": 0,
        "train_device": args.device,
        "sampling_device": args.device,
        "buffer_device": args.device,
        "on_policy_n_envs_per_worker": args.matches,
        "on_policy_collected_frames_per_batch": args.batch,
        "on_policy_minibatch_size": args.minibatch,
        "max_n_frames": args.batch * 10**6,
    }
    return replace(usual, task={**usual.task, "config_path": args.scenario}, experiment=experiment)


class Bare:
    """The engines of all matches, with actions from a table."""

    def __init__(self, training: DoomTraining, args: argparse.Namespace) -> None:
        from reelrl.act.marl.task_config import DoomTaskConfig
        from reelrl.settings import config

        task = config.from_mapping(DoomTaskConfig, training.task, foreign=True)
        self.steps = args.batch // args.matches
        self.places = list(range(args.matches))
        self.batch = MatchBatch(task.match_config(), self.places, slots=self.steps, max_steps=task.max_steps)
        self.actions = np.random.default_rng(0).integers(ACTIONS, size=(self.steps, args.matches, task.num_players))
        self.cpu_s = math.inf
        """Of players and engines, in the round that took least."""

    def round(self) -> float:
        groups = {pid for each in self.batch.matches for pid in each.pids}
        before = cpu_s(groups)
        started = time.perf_counter()
        for step, actions in enumerate(self.actions):
            self.batch.start(self.places, actions, step)
            done = self.batch.finish(self.places).done
            if done.any():
                self.batch.new_episodes(np.flatnonzero(done).tolist(), step)
        lasted = time.perf_counter() - started
        self.cpu_s = min(self.cpu_s, cpu_s(groups) - before)
        return lasted

    def close(self) -> None:
        self.batch.close()


def cpu_s(groups: set[int]) -> float:
    """CPU time of the processes in these groups so far."""
    rows = [engines._read(pid, "stat").rpartition(")")[2].split() for pid in engines._processes()]
    ticks = sum(int(row[11]) + int(row[12]) for row in rows if row and int(row[2]) in groups)
    return ticks / os.sysconf("SC_CLK_TCK")


def restless(training: DoomTraining, args: argparse.Namespace) -> Bare:
    with mock.patch.object(match, "cores", return_value=2 * args.matches):
        return Bare(training, args)


class Collect:
    """Batches by the collector, one after the other; nobody learns."""

    def __init__(self, training: DoomTraining) -> None:
        self.experiment = DoomExperiment(training, seed=0)
        collector = self.experiment.collector
        collector._begun = 0
        self.round_of: Callable[[], Any] = lambda: collector._submit().result()

    def round(self) -> float:
        started = time.perf_counter()
        self.round_of()
        return time.perf_counter() - started

    def close(self) -> None:
        self.experiment.close()


class Train:
    """Whole iterations of a training, as its logger sees them end."""

    def __init__(self, kind: type[DoomExperiment], training: DoomTraining) -> None:
        self.experiment = kind(training, seed=0)
        self._loop = self._iterations()
        next(self._loop)

    def _iterations(self) -> Any:
        """The experiment's loop in a thread that stands still between rounds."""
        import threading

        go, done = threading.Semaphore(0), threading.Semaphore(0)

        def pause(_: Any) -> None:
            done.release()
            go.acquire()

        self.experiment.on_iteration = pause
        threading.Thread(target=self.experiment._collection_loop, daemon=True).start()
        done.acquire()  # the first iteration starts the engines
        yield
        while True:
            go.release()
            done.acquire()
            yield

    def round(self) -> float:
        started = time.perf_counter()
        next(self._loop)
        return time.perf_counter() - started

    def close(self) -> None:
        self.experiment.collector.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ways", nargs="*", default=["bare", "restless", "collect", "plain", "strict", "beside"])
    parser.add_argument("--scenario", default="nine_rooms")
    parser.add_argument("--matches", type=int, default=4)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--minibatch", type=int, default=100)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(args.threads)
    training = settings(args)
    strict = replace(training, collection=doom_training.STRICT)
    make: dict[str, Callable[[], Any]] = {
        "bare": lambda: Bare(training, args),
        "restless": lambda: restless(training, args),
        "collect": lambda: Collect(training),
        "plain": lambda: Train(PlainExperiment, training),
        "strict": lambda: Train(DoomExperiment, strict),
        "beside": lambda: Train(DoomExperiment, training),
    }
    best = dict.fromkeys(args.ways, 0.0)
    print(f"{args.matches} matches of {args.scenario}, {args.batch} steps to a batch, load {os.getloadavg()[0]:.1f}")
    # One way's engines at a time: those of a way that waits would not cost anything, but its memory would.
    for way in args.ways:
        made = make[way]()
        try:
            made.round()  # engines have started, caches are warm
            best[way] = max(args.batch / made.round() for _ in range(args.rounds))
        finally:
            made.close()
        cpu = f"   CPU {made.cpu_s / args.batch * 1e3:.2f} ms" if isinstance(made, Bare) else ""
        print(f"{way:8} {best[way]:8.0f} steps/s{cpu}   load {os.getloadavg()[0]:.1f}", flush=True)
    for way, against in (("bare", "restless"), ("collect", "bare"), ("strict", "plain"), ("beside", "plain")):
        if best.get(way) and best.get(against):
            print(f"{way} / {against}  {best[way] / best[against]:.2f}")


if __name__ == "__main__":
    main()
