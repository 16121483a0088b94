"""What a race has found so far, in a JSON file that is rewritten at every mark."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from reelrl import __version__
from reelrl.errors import ConfigError, ContentError
from reelrl.see.settings import AutoEncoderSettings
from reelrl.settings import config
from reelrl.storage.files import explain_os_error, write_atomic
from reelrl.storage.plain_data import parse_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reelrl.see.race.contestants import RaceContestant

    Row = dict[str, Any]

WINDOW = 0.1
"""Share of the frames before a mark that its figure is the mean of."""


def marks(frames: int) -> list[int]:
    """Where figures are taken: 100, 200, 500, 1000 ... up to and with the last frame."""
    every = [digit * 10**power for power in range(2, 10) for digit in (1, 2, 5)]
    return sorted({mark for mark in every if mark < frames} | {frames})


def window_start(mark: int) -> int:
    """The last frame before the window of a mark."""
    return mark - max(1, round(WINDOW * mark))


class Results:
    """Rows in a JSON file; those that are whole are not run again."""

    def __init__(self, path: Path, facts: dict[str, Any]) -> None:
        self.path = path
        self.facts = {**facts, "reelrl": __version__, "window": f"the last {WINDOW:.0%} of the frames before a mark"}
        self.rows: dict[tuple[str, str, int | None], Row] = {}
        if path.exists():
            self._load()

    def missing(self, wanted: Sequence[RaceContestant], frames: int) -> list[RaceContestant]:
        """Contestants that have not come to their end at `frames`; one that was run with other settings is refused."""
        for contestant in wanted:
            row = self.rows.get(contestant.key)
            # Settings that came later than the file are as they are by default.
            was = config.merge(AutoEncoderSettings(), row["settings"]) if row else contestant.settings
            now = contestant.settings
            changed = [each.name for each in fields(was) if getattr(was, each.name) != getattr(now, each.name)]
            if changed:
                raise ConfigError(
                    f"{self.path} has {contestant.name} on {contestant.source} with other settings than asked for now "
                    f"({', '.join(changed)}); write to another file"
                )
        return [contestant for contestant in wanted if not self._whole(contestant, frames)]

    def _whole(self, contestant: RaceContestant, frames: int) -> bool:
        row = self.rows.get(contestant.key, {"at": {}})
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
            saved = parse_json(self.path.read_bytes())
            rows = {(row["contestant"], row["source"], row["seed"]): row for row in saved["rows"]}
            earlier, now = saved["facts"].get("command"), self.facts.get("command")
        except OSError as error:
            raise ContentError(explain_os_error(error, self.path, "read")) from error
        except (ValueError, KeyError, TypeError) as error:
            raise ContentError(f"{self.path} holds no results of ours ({error!r}); move it away") from error
        self.rows = rows
        if earlier and now:  # one file, made by several commands: all of them are written down
            self.facts["command"] = earlier if now in earlier else f"{earlier} && {now}"
