"""Train a player that learns while it plays: one look at each frame, one update, no second look.

reel train atari                                          Breakout, from its pixels, by Q(lambda)
reel train atari --source ale:Assault --algorithm actor-critic
reel train atari --observation embedding                  sees through an autoencoder that learns beside it; also `both`
reel train atari --observation embedding --autoencoder places
reel train atari --source gym:CartPole-v1                 any environment with discrete actions, by its own numbers
reel train atari --view                                   with a page that shows it live
reel train atari --resume runs/0007                       go on where a run stopped, exactly

Atari games have all 18 buttons, a fourth of which the console misses in each of its frames. episodes.jsonl has a line
per episode, metrics.jsonl one per 1000 frames, TensorBoard (tb/) every frame. Ctrl+C ends the training after the frame
under way and saves; again, at once.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from reelrl.cli import options, output
from reelrl.cli.train import command as training
from reelrl.runs.progress import spaced

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from reelrl.act.atari.settings import AtariTraining
    from reelrl.act.atari.train import AtariTrainer

STAGE = "atari"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--source", metavar="NAME", help="ale:GAME or gym:ID (default ale:Breakout)")
    add("--frames", type=int, metavar="N", help="frames to play in all (default 200000)")
    add("--algorithm", choices=("q", "actor-critic"), help="Q(lambda) or actor-critic(lambda) (default q)")
    add(
        "--observation",
        choices=("pixels", "embedding", "both", "numbers"),
        help="what the player sees (default pixels; of gym:ID its own numbers)",
    )
    add("--autoencoder", metavar="NAME", help="named settings of the autoencoder beside the player, such as places")
    add("--device", metavar="NAME", help="cpu, cuda or cuda:N (default: cuda where there is one)")
    add("--view", nargs="?", type=int, const=-1, metavar="PORT", help="show it live in a browser on this machine")
    options.add_settings(parser)
    training.add_arguments(parser, but_for="--frames")
    add("--threads", type=int, metavar="N", help="CPU threads of the learner (default 1, or those of the resumed run)")


def run(args: argparse.Namespace) -> None:
    from reelrl.act.atari.train import AtariTrainer
    from reelrl.act.atari.viewer import PlayerViewer

    device = training.device_of(args)
    settings, seed = _settings(args)
    if not args.resume:
        _check_game(settings, seed)
    facts = {"device": str(device), "threads": args.threads or 1}
    where = training.in_run(
        STAGE, settings, seed, root=args.output_dir, resume=args.resume, name=_name(settings), facts=facts
    )
    viewer = (
        None
        if args.view is None
        else PlayerViewer(settings.source, settings.frames, None if args.view < 0 else args.view)
    )
    with (
        viewer or nullcontext(),
        where as run_folder,
        AtariTrainer(settings, seed, run_folder, device, viewer) as trainer,
    ):
        _introduce(args, trainer)
        with training.Report(settings.frames, unit="frames") as report:
            report.begin(trainer.frames_done)
            trainer.train(_frame_report(trainer, report), report.saving(args.save_every, "frame"))
    _conclude(trainer)
    training.conclude(args, run_folder.folder, f"reel evaluate {run_folder.folder}")


def _settings(args: argparse.Namespace) -> tuple[AtariTraining, int]:
    """The defaults, then --config, then the options, then --set; of a resumed run, its own."""
    from reelrl.act.atari.settings import AtariTraining
    from reelrl.settings import config

    changes: dict[str, Any] = {} if args.frames is None else {"frames": args.frames}
    if before := training.resumed(args, STAGE, AtariTraining):
        return config.merge(before[0], changes), before[1]
    chosen = config.named(AtariTraining(), args.config) if args.config else AtariTraining()
    player: dict[str, Any] = {"seed": args.seed, "autoencoder": {"seed": args.seed, **_autoencoder(args.autoencoder)}}
    if args.algorithm:
        player["algorithm"] = args.algorithm
    source = args.source or chosen.source
    if args.observation:
        player["observation"] = args.observation
    elif source.startswith("gym:") and not args.config:
        player["observation"] = "numbers"
    merged = config.merge(chosen, {**changes, "source": source, "player": player})
    return config.override(merged, args.set), args.seed


def _autoencoder(name: str | None) -> dict[str, Any]:
    """What named settings of `reel train autoencoder` change in its model."""
    from reelrl.see.settings import AutoEncoderSettings
    from reelrl.see.train import AutoEncoderTraining
    from reelrl.settings import config

    if name is None:
        return {}
    named = config.named(AutoEncoderTraining(source=""), name)
    return config.differences(named.model, AutoEncoderSettings())


def _check_game(settings: AtariTraining, seed: int) -> None:
    """What cannot be played should not leave a run behind."""
    from reelrl.content.games.process import GameProcess

    GameProcess(settings.source, seed, settings.player.shows).close()


def _name(settings: AtariTraining) -> str:
    what = settings.source.partition("?")[0].rpartition(":")[2].rpartition("/")[2]
    return ("atari-" + "".join(c if c.isalnum() else "-" for c in what.lower()).strip("-"))[:60]


def _introduce(args: argparse.Namespace, trainer: AtariTrainer) -> None:
    settings, player = trainer.settings, trainer.player
    output.line("run", trainer.run.folder, f"seed {trainer.seed}", f"{spaced(settings.frames)} frames", player.device)
    output.line("source", settings.source, f"{player.facts.actions} actions", settings.player.observation)
    parameters = sum(value.numel() for value in player.parameters())
    output.line("player", settings.player.algorithm, f"{spaced(parameters)} parameters", settings.player.value.name)
    if trainer.viewer:
        output.line("view", trainer.viewer.url)
    if args.resume:
        training.say_resumed(f"frame {spaced(trainer.frames_done)}" if trainer.resume() else None)


def _conclude(trainer: AtariTrainer) -> None:
    output.line("final", *_figures(trainer), f"{trainer.play.episode} episodes before the last")
    shares = trainer.performance.shares()
    output.line("time", "   ".join(f"{part} {share:.0%}" for part, share in shares.items()))


def _figures(trainer: AtariTrainer) -> list[str]:
    if not trainer.returns:
        return ["no episode ended"]
    return [f"return {sum(trainer.returns) / len(trainer.returns):.2f} (last {len(trainer.returns)})"]


def _frame_report(trainer: AtariTrainer, report: training.Report) -> Callable[[int], None]:
    """What is printed after each frame."""

    def on_frame(done: int) -> None:
        returns = trainer.returns
        shown = {"return": sum(returns) / len(returns)} if returns else {}
        report.moved(done, **shown)
        if report.line_due():
            report.line("frame", report.place, *_figures(trainer), report.rate, report.left)

    return on_frame
