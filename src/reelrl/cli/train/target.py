"""Train the model that predicts which CRF gives a quality, from encodes of your own videos.

reel train target films/                        scenes of every video in a folder
reel train target films/ generated:street a.mkv --set scenes.scenes=8
reel train target                               generated scenes, where there are no videos
reel train target --resume runs/0007            go on where a run stopped
reel evaluate target runs/0007                  on sources left out in turn
reel encode in.mkv -o out.mkv --target vmaf=93 --model runs/0007

Each scene is probed and encoded at two CRFs with preset 8, every second also with preset 4; `--set thorough=true` takes
five and three, so that curves can be read off. Encodes are cached. Ctrl+C ends the training after the scene under way.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from reelrl.cli import options, output
from reelrl.cli.train import command as training

if TYPE_CHECKING:
    import argparse

    from reelrl.encode.target.lessons import Lesson

STAGE = "target"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("videos", nargs="*", metavar="FOLDER", help="folders, files or recipes (default: generated)")
    options.add_settings(parser)
    training.add_arguments(parser)
    options.add_workers(parser, 1, "processes that encode")


def run(args: argparse.Namespace) -> None:
    from reelrl.content.quality import vmaf_program
    from reelrl.encode.target.train import TargetTrainer, TargetTraining

    vmaf_program()  # complain now, not after the first encode
    settings, seed = training.resumed(args, STAGE, TargetTraining) or (
        options.settings_from(args, TargetTraining(videos=tuple(args.videos))),
        args.seed,
    )
    if args.videos:
        settings = replace(settings, videos=tuple(args.videos))
    with training.in_run(STAGE, settings, seed, root=args.output_dir, resume=args.resume, name=STAGE) as run_folder:
        trainer = TargetTrainer(settings, run_folder, args.jobs)
        output.line("run", run_folder.folder, f"{len(trainer.scenes)} scenes", f"{trainer.done} measured")
        with training.Report(len(trainer.scenes), unit="scenes") as report:
            report.begin(trainer.done)

            def measured(lesson: Lesson) -> None:
                report.moved(trainer.done)
                if report.line_due():
                    scores = " ".join(f"{score:.1f}" for score in lesson.curve("8", "vmaf.mean")[1])
                    report.line("scene", report.place, lesson.name, f"VMAF {scores}", report.left)

            models = trainer.train(measured, report.saving(args.save_every, "scene"))
    output.line("done", f"{len(trainer.lessons)} scenes", f"{len(models)} figures")
    training.conclude(args, run_folder.folder, f"reel evaluate {run_folder.folder}")
