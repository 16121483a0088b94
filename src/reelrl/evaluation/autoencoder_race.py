"""Learners side by side on the same streams: optimisers, seeds and games in one pass over a device.

Every frame is scored before it is learned from. The figure at N frames is the mean over the last tenth before N. All
learners of a game see the same frames; seeds vary their first weights. Results are written at every mark, so a race
that was stopped goes on with what is missing.
"""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from reelrl import __version__, config
from reelrl.errors import ConfigError, ContentError
from reelrl.evaluation.autoencoder_model import Judge
from reelrl.evaluation.autoencoder_ordinary import train_ordinary
from reelrl.evaluation.autoencoder_scores import Scores
from reelrl.evaluation.autoencoder_yardsticks import HELD_OUT_SEED, NAMES, Yardsticks, background_of
from reelrl.files import explain_os_error, writable_folder, write_atomic
from reelrl.names import did_you_mean
from reelrl.progress import Progress
from reelrl.see.frames import to_input
from reelrl.see.settings import RATES, AutoEncoderSettings
from reelrl.see.sources import FrameSource
from reelrl.see.step import fast_step
from reelrl.see.streaming import StreamingAutoEncoder
from reelrl.see.weights import save_weights

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torch import Tensor

    Row = dict[str, Any]

WINDOW = 0.1
"""Share of the frames before a mark that its figure is the mean of."""


@dataclass(frozen=True)
class Entry:
    """One learner: who, on what, with which first weights."""

    contestant: str
    source: str
    settings: AutoEncoderSettings

    @property
    def key(self) -> tuple[str, str, int | None]:
        return self.contestant, self.source, self.settings.seed


def contestant_settings(text: str) -> AutoEncoderSettings:
    """Settings meant by "default", an optimiser ("adam"), or "config:NAME"; "+key=value" changes single ones."""
    base, *changes = text.split("+")
    defaults = AutoEncoderSettings()
    if base == "default":
        chosen = defaults
    elif base.startswith("config:"):
        chosen = _named(base.removeprefix("config:"))
    elif base in RATES:
        chosen = config.merge(defaults, {"optimiser": {"name": base, "lr": None}})
    else:
        raise ConfigError(f"contestant {base!r} is unknown{did_you_mean(base, ['default', 'config:NAME', *RATES])}")
    return config.override(chosen, changes)


def _named(name: str) -> AutoEncoderSettings:
    """The model's part of what `reel train autoencoder --config NAME` takes."""
    if name not in config.known_configs():
        raise ConfigError(f"no settings are named {name!r}{did_you_mean(name, config.known_configs())}")
    changes = config.read_yaml(config.CONFIGS / f"{name}.yaml")
    if "model" not in changes:
        raise ConfigError(f"settings {name!r} say nothing about the autoencoder; they have {', '.join(changes)}")
    return config.merge(AutoEncoderSettings(), changes["model"])


def entries(contestants: Sequence[str], sources: Sequence[str], seeds: int) -> list[Entry]:
    """Every contestant on every source with every seed; what shares a source stands together."""
    settings = {name: contestant_settings(name) for name in contestants}
    return [
        Entry(name, source, replace(settings[name], seed=seed))
        for source in sources
        for name in contestants
        for seed in range(seeds)
    ]


def marks(frames: int) -> list[int]:
    """Where figures are taken: 100, 200, 500, 1000 ... up to and with the last frame."""
    every = [digit * 10**power for power in range(2, 10) for digit in (1, 2, 5)]
    return sorted({mark for mark in every if mark < frames} | {frames})


class Results:
    """Rows in a JSON file; those that are whole are not run again."""

    def __init__(self, path: Path, facts: dict[str, Any]) -> None:
        self.path = path
        self.facts = {**facts, "reelrl": __version__, "window": f"the last {WINDOW:.0%} of the frames before a mark"}
        self.rows: dict[tuple[str, str, int | None], Row] = {}
        if path.exists():
            self._load()

    def missing(self, wanted: Sequence[Entry], frames: int) -> list[Entry]:
        """Entries that have not come to their end at `frames`; one that was run with other settings is refused."""
        for entry in wanted:
            row = self.rows.get(entry.key)
            if row and row["settings"] != config.to_mapping(entry.settings):
                raise ConfigError(
                    f"{self.path} has {entry.contestant} on {entry.source} with other settings than asked for now; "
                    "write to another file"
                )
        return [entry for entry in wanted if not self._whole(entry, frames)]

    def _whole(self, entry: Entry, frames: int) -> bool:
        row = self.rows.get(entry.key, {"at": {}})
        return str(frames) in row["at"] and "held_out" in row

    def add(self, key: tuple[str, str, int | None], mark: int, figures: Row, settings: Row | None) -> None:
        contestant, source, seed = key
        fresh: Row = {"contestant": contestant, "source": source, "seed": seed, "settings": settings, "at": {}}
        self.rows.setdefault(key, fresh)["at"][str(mark)] = figures

    def write(self) -> None:
        ordered = [self.rows[key] for key in sorted(self.rows, key=str)]
        write_atomic(self.path, json.dumps({"facts": self.facts, "rows": ordered}, indent=1) + "\n")

    def _load(self) -> None:
        try:
            found = json.loads(self.path.read_bytes())
            rows = {(row["contestant"], row["source"], row["seed"]): row for row in found["rows"]}
        except OSError as error:
            raise ContentError(explain_os_error(error, self.path, "read")) from error
        except (ValueError, KeyError, TypeError) as error:
            raise ContentError(f"{self.path} holds no results of ours ({error!r}); move it away") from error
        self.rows = rows


def race(
    wanted: Sequence[Entry],
    frames: int,
    results: Results,
    *,
    device: str = "cpu",
    together: int = 24,
    seed: int = 0,
    keep: Path | None = None,
    held_out: int = 100,
) -> None:
    """Run what is missing, at most `together` learners in one pass. `keep` is a folder for what they have learned.

    In the end each is scored on `held_out` frames of episodes that it never saw.
    """
    if frames < 1 or together < 1:
        raise ConfigError(f"frames {frames}, together {together}; both are 1 or more")
    if seed == HELD_OUT_SEED:
        raise ConfigError(f"seed {seed} is that of the held-out episodes; choose another")
    left = results.missing(wanted, frames)
    if left and device.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError(f"device is {device}, but torch finds no GPU here; use --device cpu")
    passes = [left[start : start + together] for start in range(0, len(left), together)]
    with Progress("race", len(passes) * frames, unit="frames") as progress:
        for number, group in enumerate(passes, 1):
            progress.update(0, **{"pass": f"{number}/{len(passes)}", "learners": len(group)})
            one = _Pass(group, frames, results, device)
            one.run(seed, progress)
            if keep:
                one.save(writable_folder(keep))
            one.examine(held_out)  # last: who has this is done


def ordinary(
    sources: Sequence[str], frames: int, updates: int, results: Results, *, device: str = "cpu", seed: int = 0
) -> None:
    """The default settings trained on the shuffled frames of each source; only the held-out score is comparable."""
    settings = AutoEncoderSettings()
    for source in sources:
        name = f"shuffled, {updates} batches"
        if (name, source, settings.seed) not in results.rows:
            model = train_ordinary(settings, source, frames, updates, device=device, seed=seed)
            row = {"contestant": name, "source": source, "seed": settings.seed, "at": {}}
            figures = Judge(source, device=device).judge(model)
            results.rows[name, source, settings.seed] = {
                **row,
                "settings": config.to_mapping(settings),
                "held_out": figures,
            }
            results.write()


class _Pass:
    """Some learners, the sources they watch, and the sums of what is being scored."""

    def __init__(self, group: Sequence[Entry], frames: int, results: Results, device: str) -> None:
        modes = {entry.settings.step for entry in group}
        if len(modes) > 1:
            raise ConfigError(f"contestants want to step in different ways ({', '.join(sorted(modes))}); choose one")
        self._group, self._frames, self._results, self._device = group, frames, results, device
        self._sources = list(dict.fromkeys(entry.source for entry in group))
        self._learners = [StreamingAutoEncoder(entry.settings, device) for entry in group]
        self._step = fast_step(self._learners, modes.pop())
        self._yardsticks = {source: Yardsticks(device) for source in self._sources}
        self._backgrounds = {source: background_of(source).to(device) for source in self._sources}
        self._open = {mark: self._scores() for mark in marks(frames)}

    def _scores(self) -> dict[str, Scores]:
        return {source: Scores(len(NAMES) + len(self._watching(source)), self._device) for source in self._sources}

    def _watching(self, source: str) -> list[int]:
        """Learners of a source, by their place."""
        return [place for place, entry in enumerate(self._group) if entry.source == source]

    def run(self, seed: int, progress: Progress) -> None:
        with ExitStack() as stack:
            streams = {source: stack.enter_context(FrameSource(source, seed, self._device)) for source in self._sources}
            for now in range(1, self._frames + 1):
                seen = {source: _next(stream) for source, stream in streams.items()}
                pictures = self._learn(seen)
                self._score([scores for mark, scores in self._open.items() if _in_window(now, mark)], seen, pictures)
                if now in self._open:
                    self._close(now)
                progress.update()

    def examine(self, frames: int) -> None:
        """Score what each learner knows in the end on episodes that it never saw."""
        for source in self._sources:
            judge = Judge(source, frames, self._device)
            for place in self._watching(source):
                self._results.rows[self._group[place].key]["held_out"] = judge.judge(self._learners[place])
        self._results.write()

    def save(self, folder: Path) -> None:
        for entry, learner in zip(self._group, self._learners, strict=True):
            save_weights(
                learner, folder / f"{_slug(entry.source)}-{_slug(entry.contestant)}-{entry.settings.seed}.safetensors"
            )

    def _learn(self, seen: dict[str, tuple[Tensor, bool]]) -> list[Tensor]:
        """What each learner made of its frame, before it learned from it."""
        shown = [seen[entry.source] for entry in self._group]
        outcomes = self._step([frame[0] for frame, _ in shown], [cut for _, cut in shown])
        return [
            outcome.reconstruction.reshape(frame.shape) for outcome, (frame, _) in zip(outcomes, shown, strict=True)
        ]

    def _score(
        self, running: Sequence[dict[str, Scores]], seen: dict[str, tuple[Tensor, bool]], pictures: Sequence[Tensor]
    ) -> None:
        for source, (frame, _) in seen.items():
            yardsticks = self._yardsticks[source]
            if running:
                guesses = torch.cat([yardsticks.guess(frame), *(pictures[place] for place in self._watching(source))])
                for scores in running:
                    scores[source].add(guesses, frame, self._backgrounds[source], yardsticks.last)
            yardsticks.update(frame)

    def _close(self, mark: int) -> None:
        """Write down what was scored up to a mark."""
        for source, scores in self._open.pop(mark).items():
            figures = scores.figures()
            for name, values in zip(NAMES, figures, strict=False):
                self._results.add((name, source, None), mark, values, None)
            for place, values in zip(self._watching(source), figures[len(NAMES) :], strict=True):
                entry = self._group[place]
                self._results.add(entry.key, mark, values, config.to_mapping(entry.settings))
        self._results.write()


def _in_window(now: int, mark: int) -> bool:
    return mark - max(1, round(WINDOW * mark)) < now <= mark


def _slug(text: str) -> str:
    """A name that is good for a file."""
    return re.sub(r"[^A-Za-z0-9.=]+", "_", text.removeprefix("ale:"))


def _next(stream: FrameSource) -> tuple[Tensor, bool]:
    """The next frame [1, 3, 224, 224] of a stream that must not end."""
    frame = stream.read()
    if frame is None:
        raise ContentError(f"{stream.name} ended before the race did; give fewer frames or a source that goes on")
    return to_input(frame.pixels), frame.cut
