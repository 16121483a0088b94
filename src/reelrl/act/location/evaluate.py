"""Who knows best where everybody is: trained nets beside baselines, on matches that none of them has seen.

    evaluation = evaluate([RunFolder("runs/0007"), ...], split="test")
    evaluation.interval("one", "net", "mates_now", "macro_ap")

Everybody answers about the same moments, from one player's view (each player's in turn) and from all views.
Thresholds are chosen on validation matches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal

from reelrl.act.location.baselines.frame_reader import FrameReaderSightings
from reelrl.act.location.baselines.simple import baselines
from reelrl.act.location.contestants import TrainedNet, load_nets
from reelrl.act.location.dataset import Scenes
from reelrl.act.location.model.net import HEADS
from reelrl.act.location.samples import Marks, Moments
from reelrl.act.location.scores import (
    METRICS,
    Counts,
    Floats,
    best_thresholds,
    drawings,
    interval,
    over_seeds,
    summed,
)
from reelrl.parallel import executor
from reelrl.runs.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import torch

    from reelrl.act.location.answers import Answers
    from reelrl.act.location.baselines.simple import LocationBaseline
    from reelrl.report.intervals import Interval
    from reelrl.runs.folder import RunFolder

    Answering = Callable[[str, Moments, Marks], Answers]
    """From a split's name, its moments and the views they are seen in."""

Views = Literal["one", "all"]
VIEWS: tuple[Views, ...] = ("one", "all")
_BY_READER = "sightings by the frame reader"
ALL_HEADS = "mean"
"""Stands for a head: the mean over all of them."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Scores by views, contestant, head and metric: [drawings], the first being what was measured."""

    split: str
    scenes: Scenes
    nets: dict[str, list[TrainedNet]]
    scores: dict[tuple[str, str, str, str], Floats] = field(repr=False)
    counts: dict[tuple[str, str, str], list[Counts]] = field(repr=False)
    """By views, contestant and head: one for each seed."""

    def contestants(self, views: str) -> list[str]:
        return list(dict.fromkeys(name for seen, name, _, _ in self.scores if seen == views))

    def interval(self, views: str, name: str, head: str, metric: str) -> Interval:
        return interval(self.scores[views, name, head, metric]).of(self.matches)

    @property
    def matches(self) -> int:
        return len(self.scenes.moments[self.split].matches)

    def difference(self, views: str, name: str, other: str, head: str, metric: str) -> Interval:
        """How much higher than another one, on the same drawings of matches."""
        more = self.scores[views, name, head, metric] - self.scores[views, other, head, metric]
        return interval(more).of(self.matches)


def evaluate(
    folders: Sequence[RunFolder],
    *,
    data: str | None = None,
    split: str = "test",
    embeddings: str | None = None,
    make: bool = True,
    device: str | torch.device = "cpu",
    jobs: int = 1,
) -> Evaluation:
    """Every net and baseline about every moment of a split; `jobs` of them at the same time."""
    splits = list(dict.fromkeys(["train", "val", split, "retrieval"]))
    nets = load_nets(folders, data, splits, embeddings, make, device)
    scenes = next(iter(nets.values()))[0].scenes
    # The same drawings of matches for everybody: differences are then paired, match by match.
    weights = drawings(len(scenes.moments[split].matches))
    evaluation = Evaluation(split, scenes, nets, {}, {})
    tasks = [task for views in VIEWS for task in _contestants(scenes, nets, split, views)]
    # Threads, not processes: contestants share the embeddings of all matches, which are most of the memory.
    with executor(jobs, threads=jobs != 1) as work, Progress("answer", len(tasks), unit="contestants") as progress:
        counted = work.map(_Contestant.counts, tasks, name=lambda task: f"{task.name}, {task.views} view")
        for task, seeds in zip(tasks, counted, strict=True):
            _add(evaluation, task.views, task.name, seeds, weights)
            progress.update()
    return evaluation


def seen_through(moments: Moments, views: Views) -> tuple[Moments, Marks]:
    """Moments and the views they are seen in: one player's at a time, or those of all present."""
    return moments.single_views() if views == "one" else (moments, moments.present)


@dataclass(frozen=True, eq=False)
class _Contestant:
    """Who answers, through which views: one for each seed, after `fit` on the training matches."""

    scenes: Scenes
    split: str
    views: Views
    name: str
    seeds: list[Answering]
    fit: Callable[[Moments, Marks], None] | None = None

    def counts(self) -> list[dict[str, Counts]]:
        if self.fit is not None:
            self.fit(*seen_through(self.scenes.moments["train"], self.views))
        return [_counted(who, self.scenes, self.split, self.views) for who in self.seeds]


def _contestants(scenes: Scenes, nets: dict[str, list[TrainedNet]], split: str, views: Views) -> Iterator[_Contestant]:
    known = baselines(scenes.data, scenes.plan, scenes.samples, one_view=views == "one")
    readers = {id(net.scenes): net for group in nets.values() for net in group}
    for net in readers.values():
        if not net.scenes.names():
            continue
        name = _BY_READER if len(readers) == 1 else f"{_BY_READER} of {net.folder.name}"
        by_matches = {moments.matches: net.scenes.clips[part] for part, moments in net.scenes.moments.items()}
        known[name] = FrameReaderSightings(scenes.data, scenes.plan, scenes.samples, by_matches)
    for name, baseline in known.items():
        yield _Contestant(scenes, split, views, name, [partial(_baseline_answer, baseline)], baseline.fit)
    for name, group in nets.items():
        yield _Contestant(scenes, split, views, name, [net.answer for net in group])


def _baseline_answer(baseline: LocationBaseline, split: str, moments: Moments, pov: Marks) -> Answers:
    del split  # nets have their embeddings by splits; a baseline knows the moments' matches
    return baseline.answer(moments, pov)


def _counted(who: Answering, scenes: Scenes, split: str, views: Views) -> dict[str, Counts]:
    """What one contestant said about a split, with thresholds from the validation matches."""
    tuning, tuning_pov = seen_through(scenes.moments["val"], views)
    moments, pov = seen_through(scenes.moments[split], views)
    # Chosen on the matches that are scored, thresholds would flatter everybody, and most those with many places.
    tuned, said = who("val", tuning, tuning_pov), who(split, moments, pov)
    tuning_truth, truth = tuning.targets(tuning_pov), moments.targets(pov)
    return {
        head: Counts.of(said[head], truth[head], moments.match, best_thresholds(tuned[head], tuning_truth[head]))
        for head in HEADS
    }


def _add(evaluation: Evaluation, views: str, name: str, seeds: list[dict[str, Counts]], weights: Floats) -> None:
    for head in HEADS:
        evaluation.counts[views, name, head] = [seed[head] for seed in seeds]
        runs = [seed[head].scores(weights) for seed in seeds]
        for metric in METRICS:
            evaluation.scores[views, name, head, metric] = over_seeds([run[metric] for run in runs])
    for metric in METRICS:
        heads = {head: evaluation.scores[views, name, head, metric] for head in HEADS}
        evaluation.scores[views, name, ALL_HEADS, metric] = summed(heads)
