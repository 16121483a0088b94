"""Many matches into one folder: only those that are missing, several at a time, each kept as soon as it is complete."""

from __future__ import annotations

import secrets
import shutil
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from reelrl import seeding
from reelrl.act.doom.scenarios import find as scenarios
from reelrl.act.recording import manifest as manifests
from reelrl.act.recording.labels import Labels
from reelrl.act.recording.manifest import FileFacts, Manifest, MapEntry, MatchEntry
from reelrl.act.recording.maps import MapPlan
from reelrl.act.recording.match_task import RecordingTask, engine_version, record_match
from reelrl.act.recording.survey import plain_name, survey
from reelrl.content.pictures import save_png
from reelrl.errors import ConfigError
from reelrl.parallel import InProcess
from reelrl.storage.files import writable_folder, write_atomic
from reelrl.storage.locks import FolderLock
from reelrl.storage.regular_files import own_folder, own_path, read_regular

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from reelrl.act.recording.manifest import RecordingSettings
    from reelrl.act.recording.match_task import FreshRecording
    from reelrl.parallel import Executor
ASIDE = ".unfinished-"


@dataclass(frozen=True, eq=False)
class Collected:
    """A match that has just been added; `lost` says why it had to be played again."""

    entry: MatchEntry
    labels: Labels
    plan: MapPlan
    lost: tuple[str, ...] = ()


class Collection:
    """A folder of matches under construction, by one process at a time."""

    def __init__(self, folder: str | Path, settings: RecordingSettings) -> None:
        self.folder = writable_folder(folder)
        _refuse_strange(self.folder)
        self._lock = FolderLock(self.folder, advice="wait for it or stop it")
        try:
            has_one = (self.folder / manifests.NAME).exists()
            self.manifest = Manifest.read(self.folder) if has_one else Manifest(settings)
            _check_same(self.folder, self.manifest.settings, settings)
            self._agree_with_disk()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._lock.release()

    def missing(self, scenario: str, matches: int) -> list[int]:
        """Numbers of the matches on a map that are not there yet, of the first so many."""
        there = {entry.id for entry in self.manifest.matches}
        return [number for number in range(matches) if _match_id(plain_name(scenario), number) not in there]

    def collect(self, scenario: str, matches: int, work: Executor | None = None) -> Generator[Collected, None, None]:
        """Add what is missing of so many matches on a map; gives each as it is complete.

        Close the iterator when it is left early, so that nothing of it is at work any more. After `work.stop()` no
        more matches are begun; those being played are finished and added.
        """
        self.manifest.settings.match(scenario)  # refuses what no match can be
        numbers = self.missing(scenario, matches)
        if not numbers:
            return
        plan = self._map(scenario)
        aside = writable_folder(own_folder(self.folder / "matches") / f"{ASIDE}{secrets.token_hex(8)}").absolute()
        tasks = [self._task(scenario, plan, number, aside) for number in numbers]
        try:
            played = (work or InProcess()).as_completed(record_match, tasks, name=lambda task: f"match {task.name}")
            with closing(played):
                for task, recorded in played:
                    yield self._added(task, recorded)
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def _task(self, scenario: str, plan: MapPlan, number: int, aside: Path) -> RecordingTask:
        return RecordingTask(
            name=_match_id(plan.name, number),
            number=number,
            scenario=scenarios.absolute(scenario),
            plan=plan,
            settings=self.manifest.settings,
            seed=seeding.seed_for(self.manifest.settings.seed, "match", plan.name, number),
            aside=aside,
            engine=engine_version(),
        )

    def _added(self, task: RecordingTask, recorded: FreshRecording) -> Collected:
        recorded.move_to(self.folder / "matches" / task.name, task.aside)
        paths = {f"matches/{task.name}/{file}": facts for file, facts in recorded.files.items()}
        map_name, labels = task.plan.name, recorded.labels
        split = self.manifest.split_of(map_name, task.number)
        entry = MatchEntry(task.name, map_name, split, task.seed, len(labels), paths)
        self.manifest.add(entry)
        self.manifest.write(self.folder)
        return Collected(entry, labels, task.plan, recorded.lost)

    def _map(self, scenario: str) -> MapPlan:
        """The plan of a map, measured when it is first played on."""
        name = plain_name(scenario)
        entry = self.manifest.maps.get(name)
        if entry is not None:
            if entry.scenario != scenario:
                raise ConfigError(
                    f"{self.folder} has matches on {entry.scenario}, also called {name}; give that as --map, "
                    f"or rename {scenario}"
                )
            path = self.folder / "maps" / f"{name}.json"
            entry.files[f"maps/{name}.json"].check(path)
            return MapPlan.from_json(read_regular(path), path)
        plan = survey(scenario)
        folder = writable_folder(own_folder(self.folder / "maps"))
        write_atomic(own_path(folder / f"{name}.json"), plan.to_json())
        save_png(own_path(folder / f"{name}.png"), plan.draw(size=720))
        files = {f"maps/{name}{suffix}": FileFacts.of(folder / f"{name}{suffix}") for suffix in (".json", ".png")}
        self.manifest.maps[name] = MapEntry(scenario, files)
        self.manifest.write(self.folder)
        return plan

    def _agree_with_disk(self) -> None:
        """Clear away what a killed collection left, and forget matches whose folder somebody has removed."""
        matches = own_folder(self.folder / "matches")
        self.manifest.matches = [entry for entry in self.manifest.matches if (matches / entry.id).is_dir()]
        there = {entry.id for entry in self.manifest.matches}
        for folder in matches.glob("*"):
            ours = folder.name.startswith(ASIDE) or folder.name.rpartition("-")[0] in self.manifest.maps
            if ours and folder.name not in there:
                shutil.rmtree(folder, ignore_errors=True)


def _match_id(map_name: str, number: int) -> str:
    return f"{map_name}-{number:04d}"


def _refuse_strange(folder: Path) -> None:
    """A folder with other things in it was hardly meant, and a cleaning must not meet foreign files."""
    if (folder / manifests.NAME).exists():
        return
    # The manifest is there before the first match: matches without one have lost it, and are not ours to clear away.
    strange = sorted(path.name for path in folder.iterdir() if path.name not in {"maps", ".lock"})
    if strange:
        raise ConfigError(f"{folder} holds other things ({strange[0]}) and no {manifests.NAME}; give an empty folder")


def _check_same(folder: Path, before: RecordingSettings, now: RecordingSettings) -> None:
    old, new = asdict(before), asdict(now)
    different = [f"{name} {old[name]}, not {new[name]}" for name in old if old[name] != new[name]]
    if different:
        raise ConfigError(f"{folder} was collected with {'; '.join(different)}; say the same, or use another folder")


def describe(plan: MapPlan, matches: Sequence[Labels]) -> dict[str, str]:
    """How much happens, word -> figures over all rows: whether who is where is an open question."""
    players = [np.where(each.alive, _places(plan, each.position), -1) for each in matches]
    enemies = [np.where(each.enemy_alive, _places(plan, each.enemy_position), -1) for each in matches]
    visited = np.mean([len(set(column) - {-1}) for table in players for column in table.T])
    mate, enemy = _mean(matches, "sees_mate"), _mean(matches, "sees_enemy")
    return {
        "players by place": _shares(plan, players),
        "enemies by place": _shares(plan, enemies),
        "places at a time": f"{_at_a_time(players):.1f} with players, {_at_a_time(enemies):.1f} with enemies",
        "places in a match": f"{visited:.1f} a player",
        "on screen": f"a mate {mate:.0%}, an enemy {enemy:.0%} of the time",
        "alive": f"{np.mean([each.alive.mean() for each in matches]):.0%}",
    }


def _places(plan: MapPlan, position: NDArray[np.float32]) -> NDArray[np.int64]:
    return plan.place_of(position[..., 0], position[..., 1])


def _shares(plan: MapPlan, tables: Sequence[NDArray[np.int64]]) -> str:
    there = np.concatenate([table[table >= 0] for table in tables])
    shares = np.bincount(there, minlength=len(plan.places)) / max(len(there), 1)
    return ", ".join(f"{name} {share:.0%}" for name, share in zip(plan.places, shares, strict=True))


def _at_a_time(tables: Sequence[NDArray[np.int64]]) -> float:
    return float(np.mean([len(set(row) - {-1}) for table in tables for row in table]))


def _mean(matches: Sequence[Labels], name: str) -> float:
    return float(np.mean([getattr(each, name).any(axis=-1)[each.alive].mean() for each in matches]))
