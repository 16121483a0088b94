"""Options that several commands share, so that they are spelt and explained alike."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, TypeVar

from reelrl.cli import output
from reelrl.errors import ConfigError
from reelrl.parallel.place import WorkPlace
from reelrl.settings import config

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


def add_settings(parser: argparse.ArgumentParser) -> None:
    """`--config NAME` and `--set KEY=VALUE`; read them with `settings_from`."""
    parser.add_argument("--config", metavar="NAME", help="named settings, or the path of a YAML file")
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="change one setting, e.g. encoder.preset=10; may be repeated",
    )


def settings_from(args: argparse.Namespace, defaults: T) -> T:
    """The defaults, then `--config`, then `--set`; former names among them are reported."""
    if args.config and (today := config.FORMER_CONFIGS.get(args.config)):
        output.renamed(f"--config {args.config}", today)
    chosen = config.named(defaults, args.config) if args.config else defaults
    # Before they are set: afterwards nobody knows by which name a setting was changed.
    for key in (assignment.partition("=")[0].strip() for assignment in args.set):
        if (today := config.current_key(chosen, key)) != key:
            output.renamed(f"--set {key}", today)
    return config.override(chosen, args.set)


def add_seed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=_seed, default=0, metavar="N", help="where all chance comes from (default 0)")


def add_workers(
    parser: argparse.ArgumentParser, default: int = 0, what: str = "processes", *, cluster: bool = True
) -> None:
    """`--workers N` for `parallel.executor`, as `args.jobs`; 0 is one per core. With `cluster`, where they work."""
    default_text = "default: one per core" if default == 0 else f"0: one per core; default {default}"
    parser.add_argument(
        "--workers", "--jobs", dest="jobs", type=_jobs, default=default, metavar="N", help=f"{what} ({default_text})"
    )
    if cluster:
        add_cluster(parser)


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """`--ray ADDRESS` and `--deadline S`; `work_place` reads them."""
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="work on a Ray cluster: auto, HOST:PORT, ray://HOST:PORT, or local (default: REELRL_RAY, else none)",
    )
    parser.add_argument(
        "--deadline", type=float, metavar="S", help="end the worker of a task that takes longer (default: never)"
    )


def work_place(args: argparse.Namespace, parser: argparse.ArgumentParser) -> WorkPlace:
    """Where a command's tasks are done; on a cluster all its cores work, unless a number was given."""
    # REELRL_RAY is no default of the option: a command that cannot use a cluster refuses only who typed --ray.
    ray = getattr(args, "ray", "")
    place = WorkPlace(os.environ.get("REELRL_RAY", "") if ray is None else ray, getattr(args, "deadline", None))
    if place.ray and getattr(args, "jobs", 0) == parser.get_default("jobs"):
        args.jobs = 0
    return place


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON for programs instead of text")


def _jobs(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of workers; give 1 or more, or 0 for one per core")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no seed; give a whole number, 0 or more")
    return int(text)


def numbers(option: str, text: str) -> tuple[int, ...]:
    """Whole numbers with commas between them."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(f"{option} {text!r}; write whole numbers with commas between them") from None
