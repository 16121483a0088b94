"""One page about runs of any kind: how good each became, its curves, pictures and films, settings and command.

The page lies in a folder with the films that it shows; pictures are inside it. Nothing is fetched from elsewhere.
"""

from __future__ import annotations

import shlex
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.report.charts import Axis, Line, line_chart, line_style
from reelrl.report.page import Html, code, columns, details, facts, figure, image, page, section, table, video
from reelrl.runs.folder import RunFolder
from reelrl.runs.overview import overview
from reelrl.runs.stages import stage_of
from reelrl.storage.files import writable_folder, write_atomic
from reelrl.storage.regular_files import own_path

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reelrl.runs.overview import RunOverview

MOST_POINTS = 300
"""Of a curve: more cannot be told apart on a screen."""
MOST_PICTURES, MOST_FILMS = 4, 2
"""Of each run, the newest ones."""


def write_run_page(runs: Sequence[str | Path], folder: str | Path) -> Path:
    """Write index.html and the films into `folder`; returns the page."""
    folders = [RunFolder(run) for run in runs]
    listed = [overview(run.folder) for run in folders]
    target = writable_folder(folder)  # not before the runs are known to be there: a wrong name leaves no folder
    body = [section("Side by side", _SIDE_BY_SIDE, _table(listed)), *_comparisons(folders, listed)]
    body += [_about(run, each, target) for run, each in zip(folders, listed, strict=True)]
    many = f"{len(runs)} runs" if len(runs) > 1 else listed[0].folder.name
    kinds = ", ".join(dict.fromkeys(each.stage for each in listed))
    path = own_path(target / "index.html")
    write_atomic(path, page(many, f"Trainings of {kinds}: how good they became, and how they were made.", body))
    return path


_SIDE_BY_SIDE = "The best value of the figure by which runs of a kind are compared, and where each of them stands."


def _table(listed: list[RunOverview]) -> Html:
    rows = [
        [
            each.folder.name,
            each.stage,
            each.state,
            "-" if each.step is None else str(each.step),
            "-" if each.best is None else f"{each.best:.4g}",
            each.figure or "-",
            "-" if each.seed is None else str(each.seed),
        ]
        for each in listed
    ]
    return table(["run", "kind", "state", "step", "best", "figure", "seed"], rows)


def _comparisons(runs: list[RunFolder], listed: list[RunOverview]) -> list[Html]:
    """For each kind of run the figure that tells how good one is, all of its runs in one chart."""
    drawn = []
    for stage in dict.fromkeys(each.stage for each in listed):
        name = stage_of(stage, "a run").figure.removeprefix("-")
        of_stage = [run for run in runs if run.stage == stage]
        lines = [
            Line(run.folder.name, points, marker="none", **_colour(number))
            for number, run in enumerate(of_stage)
            if len(points := curve(list(run.metrics()), name)) > 1
        ]
        if lines:
            chart = line_chart(lines, x=Axis("step"), y=Axis(name), title=f"{name} of {stage} runs by step")
            drawn.append(section(f"How {stage} learned", f"{name} as it was logged.", figure(chart, "")))
    return drawn


def _about(run: RunFolder, listed: RunOverview, target: Path) -> Html:
    meta, records = run.meta, list(run.metrics())
    command = shlex.join(["reel", *meta.get("command", [""])[1:]])
    names = dict.fromkeys(name for record in records for name in record if name not in ("step", "t"))
    charts = [_chart(records, name) for name in names if len(curve(records, name)) > 1]
    parts = [facts([("command", command), ("begun", listed.created), *_versions(meta)])]
    parts += [_film(path, target, listed.folder.name) for path in _newest(run.artifacts, "*.mp4", MOST_FILMS)]
    parts += [_picture(path) for path in _newest(run.artifacts, "*.png", MOST_PICTURES)]
    if charts:
        parts.append(details(f"All {len(charts)} curves", *_pairs(charts)))
    parts.append(details("Settings", code(run.config_text())))
    return section(listed.folder.name, f"reel train {listed.stage}, {listed.state}.", *parts)


def curve(records: list[dict[str, Any]], name: str) -> list[tuple[float, float]]:
    """(step, value) wherever the figure was logged, thinned evenly; the last point always stays."""
    points = [
        (float(record["step"]), float(record[name]))
        for record in records
        if isinstance(record.get(name), int | float) and isinstance(record.get("step"), int | float)
    ]
    every = -(-len(points) // MOST_POINTS)
    return [*points[:-1:every], points[-1]] if points else []


def _chart(records: list[dict[str, Any]], name: str) -> Html:
    line = Line(name, curve(records, name), marker="none")
    # The legend names it: a third name along the axis would lie over its numbers.
    return figure(line_chart([line], x=Axis("step"), y=Axis(""), title=f"{name} by step"), "")


def _pairs(charts: list[Html]) -> list[Html]:
    return [
        columns(*charts[first : first + 2], *[Html()] * (first + 1 == len(charts)))
        for first in range(0, len(charts), 2)
    ]


def _colour(number: int) -> dict[str, Any]:
    return {key: value for key, value in line_style(number).items() if key != "marker"}


def _versions(meta: dict[str, Any]) -> list[tuple[str, str]]:
    return [(name, str(version)) for name, version in meta.get("versions", {}).items()]


def _newest(folder: Path, pattern: str, most: int) -> list[Path]:
    """Regular files by name, which count up; hidden ones are half written."""
    found = sorted(path for path in folder.rglob(pattern) if path.is_file() and not path.is_symlink())
    return [path for path in found if not path.name.startswith(".")][-most:]


def _film(path: Path, target: Path, run: str) -> Html:
    from reelrl.content.sources import open_clip

    clip = open_clip(str(path))
    copy = own_path(target / f"{run}-{path.name}")
    shutil.copyfile(path, copy)
    return video(copy.name, path.name, clip.width, clip.height)


def _picture(path: Path) -> Html:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as opened:
            picture = np.asarray(opened.convert("RGB"))
    except (OSError, UnidentifiedImageError) as error:
        return figure(f"cannot be read: {error}", path.name)
    return figure(image(picture, path.name), path.name)
