"""The search for superblock maps over many clips: what it finds, what is left of it elsewhere, what a policy gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.content.catalogue import split_of
from reelrl.content.clip import Clip
from reelrl.encode.clip_choice import PRISTINE
from reelrl.encode.superblock.fit import Case
from reelrl.encode.superblock.map_policy import MapPolicy
from reelrl.encode.superblock.measure import LocalCurve
from reelrl.encode.superblock.search import SearchSettings, search, transfer
from reelrl.errors import ConfigError
from reelrl.report.intervals import mean_interval

if TYPE_CHECKING:
    from collections.abc import Callable

FIGURES = ("percent", "simple", "transfer", "policy")


@dataclass(frozen=True)
class Task:
    """frames  of the window, which begins at a third of the clip; as many after it are for `transfer`"""

    clip: Clip
    frames: int
    metrics: tuple[str, ...]
    settings: SearchSettings
    policies: tuple[MapPolicy, ...] = ()

    def windows(self) -> tuple[Clip, Clip]:
        """Where to search, and the frames after it."""
        if self.clip.frame_count < 2:
            raise ConfigError(f"{self.clip.name} has one frame; a search takes two, and as many to see what is left")
        frames = min(self.frames, self.clip.frame_count // 2)
        first = (self.clip.frame_count - 2 * frames) // 3
        return self.clip.window(first, frames).load(), self.clip.window(first + frames, frames).load()


def searched(task: Task) -> list[dict[str, Any]]:
    """Records of one clip, one for each metric; savings in percent of bits, below zero for a saving."""
    window, after = task.windows()
    clip = task.clip
    records = []
    for result in search(window, task.settings, task.metrics):
        record: dict[str, Any] = {
            "clip": clip.name,
            "window": window.name,
            "split": split_of(clip.source),
            "pristine": clip.source.startswith(PRISTINE),
            "metric": result.metric,
            "percent": round(result.percent, 3),
            "simple": round(result.simple, 3),
            "transfer": round(transfer(after, task.settings, result), 3),
            "roughness": round(result.roughness, 3),
            "encodes": result.encodes,
            "cpu_s": round(result.seconds, 1),
            "offsets": result.offsets.tolist(),
        }
        for policy in task.policies:
            if policy.facts.get("objective") == result.metric:
                curve = LocalCurve.around(window, task.settings.encoder, [result.metric])[result.metric]
                record["policy"] = round(Case(window, task.settings.encoder, curve).saving(policy), 3)
        records.append(record)
    return records


def means(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means with intervals over clips: of all, of those never compressed, and of the test split alone."""
    kinds: dict[str, Callable[[dict[str, Any]], bool]] = {
        "clips": lambda _: True,
        "pristine clips": lambda record: record["pristine"],
        "test clips": lambda record: record["split"] == "test",
    }
    made = []
    for metric in dict.fromkeys(record["metric"] for record in records):
        for kind, belongs in kinds.items():
            chosen = [record for record in records if record["metric"] == metric and belongs(record)]
            if chosen:
                made.append({"metric": metric, "of": f"{len(chosen)} {kind}", **_mean(chosen)})
    return made


def _mean(records: list[dict[str, Any]]) -> dict[str, Any]:
    mean: dict[str, Any] = {}
    for name in FIGURES:
        values = [record[name] for record in records if name in record]
        if values:
            mean[name] = [round(figure, 3) for figure in mean_interval(np.array(values))]
    for name in ("encodes", "cpu_s"):
        mean[name] = round(sum(record[name] for record in records) / len(records), 1)
    if "policy" in mean and mean["percent"][0]:
        mean["share_of_search"] = round(mean["policy"][0] / mean["percent"][0], 3)
    return mean
