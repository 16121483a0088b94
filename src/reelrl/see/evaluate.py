"""Everything that is measured about trained autoencoders: held-out quality, bytes, and what the embedding knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reelrl.content.feeds.atari_labels import PLACES
from reelrl.report import records
from reelrl.runs.progress import Progress
from reelrl.see.measures.probe import ProbeResult, probe
from reelrl.see.measures.rate import BytesPoint, codec_points, embedding_points
from reelrl.see.measures.trained import Judge, as_inputs, training_pictures

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reelrl.see.measures.trained import TrainedModel


@dataclass(frozen=True)
class ModelReport:
    """Of one model: points of rate and quality on held-out frames, and the probe's results."""

    name: str
    source: str
    weights_bytes: int
    rate: list[BytesPoint]
    probe: list[ProbeResult]

    def as_record(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "source": self.source,
            "weights_bytes": self.weights_bytes,
            "rate": [point.as_record() for point in self.rate],
            "probe": [result.as_record() for result in self.probe],
        }


def examine(models: Sequence[TrainedModel], *, frames: int = 100, probe_frames: int = 10_000) -> list[ModelReport]:
    """A report on each model; the probe only where places are known, and not at all with `probe_frames` 0."""
    reports = []
    with Progress("examine", 3 * len(models), unit="parts") as progress:
        for trained in models:
            progress.update(0, model=trained.name)
            # One judge for a model and all codecs: they are compared on the same held-out frames, byte for byte.
            judge = Judge(trained.source, frames)
            # Steps of the quantiser are chosen on frames the model learned from: a sender has no others beforehand.
            rate = embedding_points(trained, as_inputs(training_pictures(trained)), judge)
            progress.update()
            rate += codec_points(judge)
            progress.update()
            labelled = probe_frames and trained.source.removeprefix("ale:") in PLACES
            results = probe(trained, probe_frames) if labelled else []
            progress.update()
            reports.append(ModelReport(trained.name, trained.source, trained.weights_bytes, rate, results))
    return reports


def write_records(folder: Path, reports: Sequence[ModelReport], facts: dict[str, Any]) -> None:
    """results.json, rate.csv, and probe.csv where places are known."""
    tables: dict[str, list[dict[str, Any]]] = {
        part: [
            {"name": report.name, "source": report.source, **each.as_record()}
            for report in reports
            for each in getattr(report, part)
        ]
        for part in ("rate", "probe")
    }
    measured = {part: rows for part, rows in tables.items() if rows}
    records.write(folder, measured, {"reports": [report.as_record() for report in reports]}, facts, name="results")
