"""Clips at rates, to learn from frame by frame: what `fit frameqp`, `fit frameqp-sac` and `search frameqp` share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelrl.storage.files import check_output

if TYPE_CHECKING:
    import argparse

    from reelrl.content.clip import Clip


def add_arguments(parser: argparse.ArgumentParser, *, seconds: str) -> None:
    """Which clips, at which rates, and for how long; `seconds` is what `--seconds` does here."""
    add = parser.add_argument
    add("--clips", nargs="+", metavar="CLIP", help="default: every clip of --split")
    add("--split", default="train", help="train (default), test or all")
    add("--frames", type=int, default=64, metavar="N", help="of each clip (default 64)")
    add("--qps", default="34,46", help="of constant quality, whose rates are met (default 34,46)")
    add("--seconds", type=float, default=float("inf"), metavar="S", help=f"{seconds} (default: no limit)")


def clips_for(args: argparse.Namespace, output: str) -> list[Clip]:
    """The clips; a result that could not be written to `output` is refused now, not after hours of encodes."""
    from reelrl.cli.evaluate.minigop import chosen_clips

    clips = chosen_clips(args)
    check_output(output, *(file for clip in clips for file in clip.files))
    return clips
