"""Folders of matches: manifest, maps, labels and videos that were changed, read as a trainer reads them."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from reelrl.act.recording.manifest import FileFacts, Manifest
from reelrl.act.recording.reader import MatchData
from reelrl.act.recording.xego import open_matches
from tests.act.location.written_matches import write_matches
from tests.campaign.mutations import mutated_bytes, mutated_json, replace_by_something_else

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from random import Random

    from tests.campaign.trial import Feed


def make_sources(folder: Path) -> None:
    write_matches(folder / "matches", 2, rows=12, players=2, elsewhere=1)


def break_one(sources: Path, folder: Path, outside: Path, chance: Random) -> Iterator[Feed]:
    data = folder / "matches"
    shutil.copytree(sources / "matches", data)
    files = sorted(path for path in data.rglob("*") if path.is_file() and path.name != "manifest.json")
    manifest = data / "manifest.json"
    if chance.random() < 0.6:
        manifest.write_bytes(mutated_json(manifest.read_text(), chance))
    if chance.random() < 0.6:
        hit = chance.choice([*files, manifest])
        if chance.random() < 0.25:
            replace_by_something_else(hit, outside, chance)
        else:
            breaker = hit.suffix == ".json"
            hit.write_bytes(
                mutated_json(hit.read_text(), chance) if breaker else mutated_bytes(hit.read_bytes(), chance)
            )
    if chance.random() < 0.5:
        _sign_again(data)
    yield "matches", lambda: _read(data)
    yield "check", lambda: list(MatchData.open(data).check())
    yield "any matches", lambda: open_matches(data).close()
    yield "write again", lambda: Manifest.read(data).write(folder)


def _sign_again(data: Path) -> None:
    """Checksums that fit what is there now, where there still is a manifest."""
    path = data / "manifest.json"
    try:
        document = json.loads(path.read_text()) if path.is_file() and not path.is_symlink() else None
        for entry in [*document["maps"].values(), *document["matches"]]:  # type: ignore[index]
            for name in list(entry["files"]):
                if (data / name).is_file() and not (data / name).is_symlink():
                    facts = FileFacts.of(data / name)
                    entry["files"][name] = {"sha256": facts.sha256, "bytes": facts.bytes}
        path.write_text(json.dumps(document))
    except (KeyError, TypeError, AttributeError, ValueError, OSError, RecursionError):
        pass  # it is broken enough


def _read(folder: Path) -> None:
    data = MatchData.open(folder)
    try:
        for info in data.matches:
            match = data.match(info.id)
            _ = match.labels.position.mean()
            match.frames(0, [0, max(0, min(info.frames, 100) - 1)])
            data.map(info.map).draw(size=64)
    finally:
        data.close()
