"""`reel evaluate RUN`: a run of any kind, by the command for its kind."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

from reelrl.errors import ConfigError, RunError

SHOWN = 5
"""So many files of a folder are named, if it is no run."""


def words_for_runs(words: list[str]) -> list[str]:
    """What to run for `evaluate RUN [RUN...] [options]`: the same with the command for runs of that stage."""
    from reelrl.runs.folder import META, RunFolder
    from reelrl.runs.stages import stage_of

    runs = list(takewhile(lambda word: not word.startswith("-"), words[1:]))
    options = words[1 + len(runs) :]  # begin at the first dash, as their values look like runs
    stages = {}
    for run in runs:
        try:
            folder = RunFolder(run)
        except RunError as error:
            if not Path(run).exists() or (Path(run) / META).exists():
                raise
            raise RunError(
                f"{run} is no run: {_what_is_there(Path(run))}; give a run of `reel train`, as in `reel evaluate "
                "runs/0007`, or the command for what you have: `reel evaluate --help` lists them"
            ) from error
        stages[run] = folder.stage
    first = runs[0]
    # Runs of one stage share a table, paired on the same content; of two stages nothing could be compared.
    other = next((run for run in runs if stages[run] != stages[first]), None)
    if other is not None:
        raise ConfigError(
            f"{first} is a run of stage {stages[first]}, {other} of stage {stages[other]}; evaluate them one by one"
        )
    stage = stage_of(stages[first], first)
    if not stage.evaluate:
        instead = stage.instead.format(run=first)
        raise ConfigError(f"{first} is a run of `reel {stage.train}`, which nothing evaluates by itself; {instead}")
    return [*stage.evaluate.split(), *runs, *options]


def _what_is_there(path: Path) -> str:
    from reelrl.runs.folder import META

    if not path.is_dir():
        return "it is a file"
    runs = sorted(meta.parent.name for meta in path.glob(f"*/{META}"))
    names = runs or sorted(each.name for each in path.iterdir())
    named = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    return f"it is a folder with {'the runs ' if runs else ''}{named or 'nothing'}"
