"""hatch_build.py: what it fetches is what was pinned, or nothing."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def build() -> Any:
    place = Path(__file__).parent.parent / "hatch_build.py"
    spec = importlib.util.spec_from_file_location("hatch_build", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def registry(build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A registry in a folder, with one package, pinned."""
    package = tmp_path / "npm" / "player" / "-" / "player-1.0.0.tgz"
    package.parent.mkdir(parents=True)
    with tarfile.open(package, "w:gz") as archive:
        entry = tarfile.TarInfo("package/dist/player.js")
        entry.size = 5
        archive.addfile(entry, io.BytesIO(b"play;"))
    monkeypatch.setattr(build, "REGISTRY", (tmp_path / "npm").as_uri())
    pinned = base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
    return build.Library("player", "1.0.0", pinned, {"dist/player.js": "player.js"})


def test_a_library_is_fetched_once(build: Any, registry: Any, tmp_path: Path) -> None:
    assert build.fetch(registry, tmp_path / "vendor")
    assert (tmp_path / "vendor" / "player.js").read_text() == "play;"
    (tmp_path / "npm" / "player" / "-" / "player-1.0.0.tgz").unlink()
    assert not build.fetch(registry, tmp_path / "vendor")


def test_another_package_than_the_pinned_one_is_refused(build: Any, registry: Any, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="not the pinned"):
        build.fetch(registry._replace(sha512="AAAA"), tmp_path / "vendor")
    assert not (tmp_path / "vendor" / "player.js").exists()


def test_a_registry_that_is_away_is_named(build: Any, registry: Any, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"player 2\.0\.0 could not be fetched from file:"):
        build.fetch(registry._replace(version="2.0.0"), tmp_path / "vendor")


def test_every_library_is_pinned_by_a_whole_hash(build: Any) -> None:
    assert {each.name for each in build.LIBRARIES} == {"dashjs", "hls.js", "shaka-player"}
    assert all(len(base64.b64decode(each.sha512)) == 64 for each in build.LIBRARIES)
