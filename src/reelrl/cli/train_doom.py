"""Train a team of players in one Doom match, from what each of them sees (BenchMARL: MAPPO, or another by name).

reel train doom                                           two players, nine rooms, the files that ship
reel train doom --algorithm ippo --frames 300000
reel train doom --task task.yaml --actor actor.yaml --critic critic.yaml --experiment experiment.yaml
reel train doom --set task.num_players=4 --set experiment.lr=1e-3
reel train doom --contrastive-weight 1                    teammates' views of one moment pulled together, besides
reel train doom --resume runs/0007                        go on where a run stopped

`reel init doom DIR` writes the files to edit, `reel check doom` tests them. A step is one action of every player.
Ctrl+C ends the training after the iteration under way and saves; again, at once. A resumed run has the parameters,
optimisers, counters and chance it had; its matches begin anew, because an engine's state cannot be saved.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from reelrl.cli import options, output
from reelrl.errors import ConfigError, GameError
from reelrl.interrupts import first_interrupt_asks
from reelrl.progress import Progress, duration, spaced

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from reelrl.act.doom_training import DoomTraining
    from reelrl.act.training import DoomExperiment
    from reelrl.runs import Run

STAGE = "doom"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--algorithm", default="mappo", metavar="NAME", help="mappo (default), ippo, masac, isac, iql or vdn")
    add_files(parser)
    add("--frames", type=int, metavar="N", help="steps of a match in all (default: the experiment's max_n_frames)")
    add("--contrastive-weight", type=float, metavar="W", help="of the cross-ego term in the loss (default 0: none)")
    add("--set", metavar="KEY=VALUE", action="append", default=[], help="change one setting, as task.num_players=4")
    add("--output-dir", default="runs", metavar="FOLDER", help="where runs are kept (default runs)")
    options.add_seed(parser)
    add("--resume", metavar="RUN", help="continue this run; its own settings and seed hold, but for --frames")
    add("--threads", type=int, default=1, metavar="N", help="CPU threads of the learner (default 1)")


def add_files(parser: argparse.ArgumentParser) -> None:
    """The YAML files of a training, as `reel check doom` takes them too."""
    for part in ("task", "actor", "critic", "experiment"):
        parser.add_argument(f"--{part}", metavar="FILE", help=f"YAML of the {part} (default: the one that ships)")
    parser.add_argument("--algorithm-file", metavar="FILE", help="YAML of the algorithm")


def settings_from(args: argparse.Namespace) -> DoomTraining:
    """The files, then --set."""
    from reelrl import config
    from reelrl.act import doom_training

    files = {part: getattr(args, part) for part in ("task", "actor", "critic", "experiment")}
    settings = doom_training.load(algorithm_name=args.algorithm, algorithm=args.algorithm_file, **files)
    return config.override(settings, args.set)


def run(args: argparse.Namespace) -> None:
    settings, seed = _settings(args)
    train(settings, seed, root=args.output_dir, resume=args.resume, threads=args.threads)


def train(
    settings: DoomTraining, seed: int, *, root: str | Path, resume: str | Path | None = None, threads: int = 1
) -> bool:
    """A training with its run folder, a new one in `root` or one to resume; False if it was stopped before its end."""
    from reelrl.act.training import DoomExperiment
    from reelrl.see.devices import use_device

    use_device("cpu", threads)
    # Built before the run's folder: settings that cannot be right should not leave a run behind.
    experiment = DoomExperiment(settings, seed)
    try:
        with _run_folder(root, resume, settings, seed, threads) as run_folder:
            experiment.run_folder = run_folder
            _introduce(experiment, run_folder, resumed=resume is not None)
            reporter = _Reporter(experiment)
            with reporter.progress, first_interrupt_asks(reporter.interrupt):
                experiment.on_iteration = reporter.iteration
                finished = _learn(experiment, run_folder)
            _conclude(experiment, run_folder, finished)
            return finished
    finally:
        experiment.close()


def _learn(experiment: DoomExperiment, run_folder: Run) -> bool:
    try:
        return experiment.learn()
    except GameError:
        output.next_command(f"reel train doom --resume {run_folder.folder}")  # a lost player is no lost training
        raise


def _settings(args: argparse.Namespace) -> tuple[DoomTraining, int]:
    from reelrl.act.doom_training import DoomTraining
    from reelrl.act.training import with_contrastive_weight, with_frames
    from reelrl.runs import RunFolder

    if args.resume:
        folder = RunFolder(args.resume)
        if folder.stage != STAGE:
            raise ConfigError(f"{folder.folder} is a run of `reel train {folder.stage}`; resume it with that command")
        settings, seed = folder.settings(DoomTraining), folder.seed
    else:
        settings, seed = settings_from(args), args.seed
        if args.contrastive_weight is not None:
            settings = with_contrastive_weight(settings, args.contrastive_weight)
    return (settings if args.frames is None else with_frames(settings, args.frames)), seed


def _run_folder(root: str | Path, resume: str | Path | None, settings: DoomTraining, seed: int, threads: int) -> Run:
    from reelrl.runs import Run

    if resume is not None:
        return Run.open(resume)
    name, facts = f"doom-{settings.algorithm_name}", {"threads": threads}
    return Run.create(root, settings, stage=STAGE, name=name, seed=seed, facts=facts)


def _introduce(experiment: DoomExperiment, run_folder: Run, *, resumed: bool) -> None:
    task = experiment.task.settings
    steps = experiment.config.get_max_n_frames(experiment.on_policy)
    output.line("run", run_folder.folder, f"seed {experiment.seed}", f"{spaced(steps)} steps")
    height, width = task.picture_size
    sees = f"{task.frame_stack} frames of {height} x {width}"
    output.line("match", task.config_path, f"{task.num_players} players", sees, f"an action every {task.skip} tics")
    eyes = experiment.model_config.video_encoder_cfg
    frozen = "frozen, encoded once per frame" if task.frozen_encoder else ""
    weight = experiment.contrastive_weight
    beside = [f"contrastive weight {weight:g}"] if weight else []
    output.line(
        "learn", experiment.algorithm_name, f"eyes {eyes['model_type']}", *([frozen] if frozen else []), *beside
    )
    if resumed:
        found = run_folder.resume()
        if found:
            experiment.restore(found)
        at = f"step {spaced(experiment.total_frames)}" if found else "the beginning: nothing was saved yet"
        output.line("resume", at)


def _conclude(experiment: DoomExperiment, run_folder: Run, finished: bool) -> None:
    folder = run_folder.folder
    output.line("done" if finished else "stopped", f"step {spaced(experiment.total_frames)}", "saved")
    output.next_command(f"reel evaluate doom {folder}" if finished else f"reel train doom --resume {folder}")


class _Reporter:
    """Tells a person how the training goes: on a terminal by the bar, elsewhere by a line per iteration."""

    def __init__(self, experiment: DoomExperiment) -> None:
        self.experiment = experiment
        self.total = experiment.config.get_max_n_frames(experiment.on_policy)
        self.done = experiment.total_frames
        self.progress = Progress("train", self.total - self.done, unit="steps")

    def iteration(self, experiment: DoomExperiment) -> None:
        figures: dict[str, Any] = experiment.logger.figures
        new, self.done = experiment.total_frames - self.done, experiment.total_frames
        told = {name: figures[key] for name, key in _TOLD.items() if key in figures}
        self.progress.update(new, **told)
        if sys.stderr.isatty():
            return
        left = duration((self.total - self.done) / max(self.progress.rate, 1e-9))
        values = [f"{name} {value:.2f}" for name, value in told.items()]
        place = f"{spaced(self.done)} / {spaced(self.total)}"
        output.line("step", place, *values, f"{spaced(self.progress.rate)} steps/s", f"{left} left")

    def interrupt(self) -> None:
        self.experiment.stop_asked = True
        if sys.stderr.isatty():
            print(file=sys.stderr)
        output.line("stop", "after this iteration", "Ctrl+C again stops at once")


_TOLD = {
    "return": "collection/reward/episode_reward_mean",
    "kills": "collection/player/info/kills",
    "evaluated": "eval/reward/episode_reward_mean",
}
