"""The card of a policy that others are to use: what it is, how to use it, how it was made, what nobody claims."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from reelrl import __version__
from reelrl.errors import CheckpointError, ContentError
from reelrl.runs import hub
from reelrl.runs.overview import overview
from reelrl.runs.policy_file import KINDS
from reelrl.runs.stages import STAGES, stage_of
from reelrl.storage.files import explain_os_error, writable_folder, write_atomic
from reelrl.storage.regular_files import own_path, read_regular

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.runs.folder import RunFolder

_HEAD = "---\nlibrary_name: reelrl\n"


def use_of(run: RunFolder, name: str) -> str:
    """The command that takes the weights from their place on the Hub."""
    source = shlex.quote(str(run.setting("source")))
    return "reel " + stage_of(run.stage, run.folder).use.format(place=f"{hub.PREFIX}{name}", source=source)


def card(run: RunFolder, name: str, licence: str = "") -> str:
    """Markdown, headed by the facts that the Hub reads."""
    stage, meta = stage_of(run.stage, run.folder), run.meta
    seen = overview(run.folder)
    command = meta.get("command") or []
    rows = {
        "made by": f"`{shlex.join(['reel', *map(str, command[1:])])}`" if command else f"`reel {stage.train}`",
        "seed": str(meta.get("seed", "")),
        "made on": str(meta.get("created", ""))[:10],
        "saved by": f"reelrl {__version__}",
        **{key: str(value) for key, value in meta.get("facts", {}).items() if isinstance(value, str | int | float)},
    }
    if seen.best is not None:
        rows[f"best {seen.figure} of the training"] = f"{seen.best:.4g}"
    table = "\n".join(f"| {key} | {_cell(value)} |" for key, value in rows.items())
    tags = "\n".join(f"- {tag}" for tag in ("reelrl", "reinforcement-learning", run.stage))
    licence_line = f"license: {licence}\n" if licence else ""
    return f"""{_HEAD}{licence_line}tags:
{tags}
---

# {name.rpartition("/")[2]}

What `reel {stage.train}` of [reelrl](https://pypi.org/project/reelrl/) learned: `{hub.WEIGHTS}`, a network and
the facts that it needs. Loading it runs no code.

```sh
pip install 'reelrl[hub]'
{use_of(run, name)}
```

## How it was made

| | |
|---|---|
{table}

```yaml
{run.config_text().strip()}
```

## What this does not show

Figures above come from the training itself. What it is worth on data that nobody learned from is for the command above
to say.
"""


def _cell(value: str) -> str:
    return value.replace("|", "\\|").replace("\n", " ")


def write(folder: Path, run: RunFolder, name: str, licence: str = "") -> None:
    """The two files of a place on the Hub."""
    files: dict[str, bytes | str] = {hub.WEIGHTS: weights_of(run).read_bytes(), hub.CARD: card(run, name, licence)}
    _refuse_another_readme(writable_folder(folder) / hub.CARD)
    for file, content in files.items():
        write_atomic(own_path(folder / file), content)


def _refuse_another_readme(path: Path) -> None:
    """In the folder of a project a card must not replace what the project says of itself."""
    try:
        found = read_regular(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ContentError(explain_os_error(error, path, "replace")) from error
    if not found.startswith(_HEAD.encode()):
        raise ContentError(f"{path} is there and is no model card of reelrl; give another folder with -o")


def weights_of(run: RunFolder) -> Path:
    """The artifact that can be used without its run."""
    stage = stage_of(run.stage, run.folder)
    if not stage.shared:
        known = ", ".join(name for name, each in STAGES.items() if each.shared)
        raise CheckpointError(
            f"{run.folder} is a run of {run.stage}, used by its folder; what can be pushed is {known}"
        )
    for kind in KINDS:
        found = sorted(run.artifacts.glob(stage.shared.format(kind=kind)))
        if found:
            return run.artifact(found[0].name)
    raise CheckpointError(f"{run.folder} has nothing to push yet; finish it: reel {stage.train} --resume {run.folder}")
