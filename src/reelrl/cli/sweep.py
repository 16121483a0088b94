"""Search the settings of any training: TPE proposes them, trials that lag behind the median are ended early.

reel sweep plan.yaml                        into sweeps/plan; again: goes on where it stood
reel sweep plan.yaml --workers 4            four trainings at the same time
reel sweep plan.yaml --ray auto             as many as the cluster has cores; nodes must see the sweep's folder
reel train abr --config sweeps/plan/best.yaml

plan.yaml, as docs/how-to/sweep.md explains it:

  train: abr
  arguments: [--config, abr-quick]
  search:
    ppo.learning_rate: {low: 1.0e-4, high: 3.0e-3, log: true}
    hidden: {choices: [32, 64, 128]}
  figure: score
  trials: 20

Writes trials.csv, summary.json, best.yaml and index.html with the importance of each setting.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelrl.cli import options, output
from reelrl.errors import ContentError
from reelrl.runs.sweep_plan import SweepPlan

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    import optuna

    from reelrl.runs.sweep import Sweep, TrialRow
    from reelrl.runs.sweep_plan import Value

_WATCH_S = 0.5
DATA = "REELRL_DATA"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", metavar="CONFIG.yaml", help="what is trained, what is searched, how often")
    parser.add_argument("-o", "--out", metavar="FOLDER", help="default: sweeps/ and the plan's name")
    options.add_workers(parser, 1, "trainings at the same time")
    options.add_seed(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from reelrl.parallel import executor
    from reelrl.report.sweep_page import write_results
    from reelrl.runs.progress import Progress
    from reelrl.runs.sweep import Sweep
    from reelrl.settings import config
    from reelrl.storage.files import writable_folder

    plan = config.load(SweepPlan, args.plan)
    folder = writable_folder(args.out or Path("sweeps") / Path(args.plan).stem).resolve()
    sweep = Sweep.begin(folder, plan, args.seed)
    data = os.environ.get(DATA, "")
    tasks = [TrialTask(str(folder), plan, seeds, draw, args.seed, data) for draw, seeds in sweep.left()]
    output.line("sweep", folder, f"{len(sweep.rows())} trials over", f"{len(tasks)} to go")
    with Progress("sweep", len(tasks), unit="trials") as progress, executor(args.jobs) as work:
        for _, number in work.as_completed(run_trial, tasks, name=lambda task: f"a trial in {task.folder}"):
            progress.update()
            row = next(row for row in sweep.rows() if row.number == number)
            output.line("trial", f"{number:4d}", *_shown(row, plan))
    summary = write_results(sweep, shlex.join(["reel", *sys.argv[1:]]))
    if args.json:
        output.as_json(summary)
        return 0
    best = sweep.best()
    if best is not None:
        output.line("best", f"{best.number:4d}", *_shown(best, plan))
    for key, share in sweep.importances().items():
        output.line("weighs", f"{share:6.1%}", key)
    output.line("page", folder / "index.html")
    output.next_command(f"reel train {plan.train} --config {folder / 'best.yaml'}")
    return 0


@dataclass(frozen=True)
class TrialTask:
    """One trial: settings are chosen when it is begun, so that it learns from all that are over by then.

    draw, sweep_seed  where the sampler's chance comes from
    data              REELRL_DATA where the sweep was started: all trainings learn from the same
    """

    folder: str
    plan: SweepPlan
    seeds: tuple[int, ...]
    draw: int = 0
    sweep_seed: int = 0
    data: str = ""


def run_trial(task: TrialTask) -> int:
    """Train with settings that the study proposes, once for every seed; returns the trial's number."""
    from reelrl.runs.sweep import Sweep

    folder = Path(task.folder)
    if not folder.is_dir():
        raise ContentError(f"{folder} is not there on this machine; a sweep's folder must be seen by all nodes")
    if task.data != os.environ.get(DATA, ""):
        raise ContentError(
            f"{DATA} is {os.environ.get(DATA, '')!r} on this machine and {task.data!r} where the sweep was started; "
            "start nodes with the same, so that all trials learn from the same data"
        )
    sweep = Sweep(folder, task.plan, task.sweep_seed + task.draw)
    trial, chosen = sweep.ask(task.seeds, task.draw)
    training = _Training(sweep, trial, chosen)
    try:
        for seed in task.seeds:
            training.train(seed)
            if training.pruned or training.error:
                break
    except BaseException:
        sweep.tell(trial, 0.0, training.runs, error="interrupted")
        raise
    value = sum(training.values) / len(training.values) if training.values else 0.0
    sweep.tell(trial, value, training.runs, pruned=training.pruned, error=training.error)
    return int(trial.number)


class _Training:
    """The trainings of one trial, in this process; a thread watches their figures."""

    def __init__(self, sweep: Sweep, trial: optuna.trial.Trial, chosen: dict[str, Value]) -> None:
        self.sweep, self.trial, self.chosen = sweep, trial, chosen
        self.values: list[float] = []
        self.runs: list[Path] = []
        self.pruned, self.error = False, ""

    def train(self, seed: int) -> None:
        from reelrl.cli.main import INTERRUPTED, main

        plan, name = self.sweep.plan, f"{self.trial.number:04d}-{seed}"
        runs, log = self.sweep.folder / "runs" / name, self.sweep.folder / "logs" / f"{name}.txt"
        runs.mkdir(parents=True, exist_ok=True)
        log.parent.mkdir(exist_ok=True)
        with (
            log.open("w") as said,
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(said),
            # Other seeds of a trial are not watched: its first one has been as good as others.
            self._watched(runs) if not self.values else contextlib.nullcontext(),
        ):
            status = main(plan.words(self.chosen, seed, str(runs)))
        run = next(iter(sorted(runs.iterdir())), None)
        if run is not None:
            self.runs.append(run)
        if self.pruned:
            return
        if status == INTERRUPTED:
            raise KeyboardInterrupt
        value = plan.taken([value for _, value in self._figures(runs)])
        if status:
            self.error = f"exit status {status}: {_last_line(log)}"
        elif value != value:
            self.error = f"the run logged no figure {plan.figure!r}; see metrics.jsonl in {runs}"
        else:
            self.values.append(value)

    @contextlib.contextmanager
    def _watched(self, runs: Path) -> Iterator[None]:
        """Report the figures of the training inside as they come; end it where others were better by then."""
        over, lock = threading.Event(), threading.Lock()
        main_thread = threading.main_thread().ident
        reported = 0

        def look() -> None:
            nonlocal reported
            figures = self._figures(runs)
            for step, value in figures[reported:]:
                self.trial.report(value, step)
            due = self.sweep.plan.prune and len(figures) > max(reported, self.sweep.plan.patience)
            if due and self.trial.should_prune():
                with lock:
                    if not over.is_set() and main_thread is not None:
                        self.pruned = True
                        over.set()
                        # As a batch system would: the training saves and ends in good order.
                        signal.pthread_kill(main_thread, signal.SIGTERM)
            reported = len(figures)

        def watch() -> None:
            while not over.wait(_WATCH_S):
                look()

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            with lock:
                over.set()
            thread.join()
            for step, value in self._figures(runs)[reported:]:
                self.trial.report(value, step)

    def _figures(self, runs: Path) -> list[tuple[int, float]]:
        from reelrl.runs.sweep import figures_of

        run = next(iter(sorted(runs.iterdir())), None)
        return figures_of(run, self.sweep.plan.figure) if run is not None else []


def _shown(row: TrialRow, plan: SweepPlan) -> list[Any]:
    value = "" if row.value is None else f"{plan.figure} {row.value:.4g}"
    settings = " ".join(f"{key}={_brief(value)}" for key, value in row.settings.items())
    return [row.state, value, settings or f"seed {row.seeds[0]}", f"{row.seconds:.0f} s", row.error]


def _brief(value: Value) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
