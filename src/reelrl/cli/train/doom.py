"""Train a team of players in one Doom match, from what each of them sees (BenchMARL: MAPPO, or another by name).

reel train doom                                           two players, nine rooms, the files that ship
reel train doom --algorithm ippo --steps 300000
reel train doom --task task.yaml --actor actor.yaml --critic critic.yaml --experiment experiment.yaml
reel train doom --set task.num_players=4 --set experiment.lr=1e-3
reel train doom --scenario bystanders --teach 60000       one must look; a rule that knows what is seen teaches
reel train doom --scenario duel --teach 40000             two sides; an earlier copy of the actor plays side B
reel train doom --strict                                  wait for the learner: every batch by the newest policy
reel train doom --ray auto                                matches as tasks on a cluster, the learner here (--workers 4)
reel train doom --contrastive-weight 1                    teammates' views of one moment pulled together, besides
reel train doom --resume runs/0007                        go on where a run stopped

`reel init doom DIR` writes the files to edit, `reel check doom` tests them. A step is one action of every player.
Engines play the next batch while the learner learns from the last, so that a batch is one update late (--strict: not).
Ctrl+C ends the training after the iteration under way and saves; again, at once. A resumed run has the parameters,
optimisers, counters and chance it had; its matches begin anew, because an engine's state cannot be saved.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reelrl.cli import options, output
from reelrl.cli.train import command as training
from reelrl.errors import GameError
from reelrl.runs.progress import spaced
from reelrl.runs.saving import EVERY_S

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from reelrl.act.marl.benchmarl.train import DoomExperiment
    from reelrl.act.marl.settings import DoomTraining
    from reelrl.runs.folder import Run

STAGE = "doom"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--algorithm", default="mappo", metavar="NAME", help="mappo (default), ippo, masac, isac, iql or vdn")
    add_files(parser)
    add("--steps", type=int, metavar="N", help="steps of a match in all (default: the experiment's max_n_frames)")
    add("--scenario", metavar="NAME", help="another than the task's, with the rewards that are meant for it")
    add(
        "--teach",
        type=int,
        metavar="N",
        help="a rule that knows what is on the screen teaches the first N steps (default 0: nobody does)",
    )
    add("--strict", action="store_true", help="no step is played by a policy that is not the newest")
    add(
        "--spread", action="store_true", help="every match a task, as with --workers and --ray: the same steps as there"
    )
    add("--contrastive-weight", type=float, metavar="W", help="of the cross-ego term in the loss (default 0: none)")
    add("--set", metavar="KEY=VALUE", action="append", default=[], help="change one setting, as task.num_players=4")
    options.add_workers(parser, 1, "matches played at the same time, each a task")
    training.add_arguments(parser, but_for="--steps")
    add("--threads", type=int, default=1, metavar="N", help="CPU threads of the learner (default 1)")


def add_files(parser: argparse.ArgumentParser) -> None:
    """The YAML files of a training, as `reel check doom` takes them too."""
    for part in ("task", "actor", "critic", "experiment"):
        parser.add_argument(f"--{part}", metavar="FILE", help=f"YAML of the {part} (default: the one that ships)")
    parser.add_argument("--algorithm-file", metavar="FILE", help="YAML of the algorithm")


def settings_from(args: argparse.Namespace) -> DoomTraining:
    """The files, then --set."""
    from reelrl.act.marl import settings as doom_training
    from reelrl.act.marl import yaml_files
    from reelrl.settings import config

    files = {part: getattr(args, part) for part in ("task", "actor", "critic", "experiment")}
    if files["actor"] is None and getattr(args, "teach", None):  # `reel compare doom` has no teacher
        files["actor"] = yaml_files.TAUGHT_ACTOR
    settings = doom_training.load(algorithm_name=args.algorithm, algorithm=args.algorithm_file, **files)
    return config.override(settings, args.set)


def run(args: argparse.Namespace) -> None:
    settings, seed = settings_and_seed(args)
    folder = train(
        settings,
        seed,
        root=args.output_dir,
        resume=args.resume,
        threads=args.threads,
        save_every_s=args.save_every,
        jobs=args.jobs,
    )
    training.conclude(args, folder, f"reel evaluate doom {folder}")


def train(
    settings: DoomTraining,
    seed: int,
    *,
    root: str | Path,
    resume: str | Path | None = None,
    threads: int = 1,
    save_every_s: float = EVERY_S,
    jobs: int = 1,
) -> Path:
    """A training to its end, in a new run in `root` or one to resume; returns the run's folder."""
    from reelrl.act.marl.benchmarl.train import DoomExperiment
    from reelrl.agents.devices import use_device

    use_device("cpu", threads)
    # Built before the run's folder: settings that cannot be right should not leave a run behind.
    experiment = DoomExperiment(settings, seed, jobs=jobs)
    try:
        name = f"doom-{settings.algorithm_name}"
        with training.in_run(
            STAGE, settings, seed, root=root, resume=resume, name=name, facts={"threads": threads}
        ) as run_folder:
            experiment.run_folder = run_folder
            _introduce(experiment, run_folder, resumed=resume is not None)
            _learn(experiment, run_folder, save_every_s)
    finally:
        experiment.close()
    output.line("done", f"step {spaced(experiment.total_frames)}", "saved")
    return run_folder.folder


def _learn(experiment: DoomExperiment, run_folder: Run, save_every_s: float) -> None:
    with training.Report(experiment.config.get_max_n_frames(experiment.on_policy), unit="steps") as report:
        report.begin(experiment.total_frames)
        experiment.on_iteration = lambda experiment: _report(experiment, report)
        try:
            experiment.learn(report.saving(save_every_s, "iteration"))
        except GameError:
            output.next_command(f"reel train doom --resume {run_folder.folder}")  # a lost player is no lost training
            raise


def settings_and_seed(args: argparse.Namespace) -> tuple[DoomTraining, int]:
    """Of the run to resume, or as all options say."""
    from reelrl.act.marl.settings import (
        STRICT,
        DoomTraining,
        with_contrastive_weight,
        with_scenario,
        with_steps,
    )

    if before := training.resumed(args, STAGE, DoomTraining):
        settings, seed = before
        if args.jobs != 1 and not settings.collection.spread:
            output.note(
                "note",
                "--workers and --ray have no effect: this run's matches are no tasks",
                "--spread begins such a run",
            )
    else:
        settings, seed = settings_from(args), args.seed
        if args.scenario is not None:
            settings = with_scenario(settings, args.scenario)
        if args.strict:
            settings = replace(settings, collection=STRICT)
        if args.spread or args.jobs != 1:
            settings = replace(settings, collection=replace(settings.collection, spread=True))
        if args.teach is not None:
            settings = replace(settings, imitation=replace(settings.imitation, steps=args.teach))
        if args.contrastive_weight is not None:
            settings = with_contrastive_weight(settings, args.contrastive_weight)
    return (settings if args.steps is None else with_steps(settings, args.steps)), seed


def _introduce(experiment: DoomExperiment, run_folder: Run, *, resumed: bool) -> None:
    task = experiment.task.settings
    steps = experiment.config.get_max_n_frames(experiment.on_policy)
    output.line("run", run_folder.folder, f"seed {experiment.seed}", f"{spaced(steps)} steps")
    height, width = task.picture_size
    sees = f"{task.frame_stack} frames of {height} x {width}"
    output.line("match", task.config_path, f"{task.num_players} players", sees, f"an action every {task.skip} tics")
    encoder = experiment.model_config.video_encoder_cfg
    frozen = "frozen, encoded once per frame" if task.frozen_encoder else ""
    weight = experiment.contrastive_weight
    beside = [f"contrastive weight {weight:g}"] if weight else []
    output.line(
        "learn", experiment.algorithm_name, f"encoder {encoder['model_type']}", *([frozen] if frozen else []), *beside
    )
    late = "the learner beside them, a batch late" if experiment.collection.beside else "strictly on-policy"
    matches = experiment.config.n_envs_per_worker(experiment.on_policy)
    taught = [f"taught for {spaced(experiment.imitation.steps)} steps"] if experiment.imitation.steps else []
    tasks = ["each a task"] if experiment.collection.spread else []
    output.line("collect", f"{matches} matches", *tasks, late if experiment.on_policy else "the learner waits", *taught)
    if task.sides == 2:
        output.line("against", "a copy of the actor", f"renewed every {experiment.self_play.renew} batches")
    if resumed:
        checkpoint = run_folder.resume()
        if checkpoint:
            experiment.restore(checkpoint)
        training.say_resumed(f"step {spaced(experiment.total_frames)}" if checkpoint else None)
        if run_folder.setting("collection") is None and experiment.on_policy:
            output.line("note", "begun by an earlier version, strictly on-policy", f"goes on with {late}")


FIGURES = {
    "return": "collection/reward/episode_reward_mean",
    "kills": "collection/player/info/kills",
    "frags": "collection/player/info/frags",
    "evaluated": "eval/reward/episode_reward_mean",
}


def _report(experiment: DoomExperiment, report: training.Report) -> None:
    """A line per iteration, or the bar."""
    figures: dict[str, Any] = experiment.logger.figures
    sides = experiment.task.settings.sides
    counted = "kills" if sides == 2 else "frags"  # the engine's count that means nothing here
    shown = {name: figures[key] for name, key in FIGURES.items() if key in figures and name != counted}
    report.moved(experiment.total_frames, **shown)
    if report.by_lines:
        values = [f"{name} {value:.2f}" for name, value in shown.items()]
        report.line("step", report.place, *values, report.rate, report.left)
