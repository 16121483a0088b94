"""Fetches the players that our pages and tests use, from npm: pinned, checked against their SHA-512, never committed.

python hatch_build.py      what `make` does for a checkout: all of them
pip wheel .                the build calls `PlayerLibraries`, which fetches those that a wheel ships

What is already there is not fetched again. Only the standard library is used: a build has nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import sys
import tarfile
import urllib.request
from pathlib import Path
from typing import NamedTuple

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ModuleNotFoundError:  # outside a build
    BuildHookInterface = object  # type: ignore[assignment,misc]

FOLDER = Path(__file__).parent / "src" / "reelrl" / "stream" / "play" / "page" / "vendor"
REGISTRY = os.environ.get("npm_config_registry") or "https://registry.npmjs.org/"  # noqa: SIM112 - npm's own
DEADLINE_S = 60


class Library(NamedTuple):
    """A package on npm, and its files that are used: path in the package -> name here."""

    name: str
    version: str
    sha512: str
    files: dict[str, str]
    shipped: bool = False


LIBRARIES = (
    Library(
        "dashjs",
        "5.2.1",
        "axcJmLeJCTJMLUfQRErUJB1KOiU5iHF+DMLBc3FKeox1HPYtGUQlC6Xm5Mm6vhBUR3CHHLIPOqw0JDIqMtP+Dw==",
        {"dist/modern/umd/dash.all.min.js": "dash.all.min.js", "LICENSE.md": "dash.LICENSE.md"},
        shipped=True,
    ),
    Library(
        "hls.js",
        "1.7.4",
        "3GlxGdPvT2YHvQYOt+yOzT/DEior/qJVNIylHA77kgeoBTdQQqi70GwefNEUmHQeNGyjC8U62+bruqW/Tpm+tg==",
        {"dist/hls.min.js": "hls.min.js", "LICENSE": "hls.LICENSE"},
    ),
    Library(
        "shaka-player",
        "5.2.12",
        "vEsuVDI3+oLh+yqpjXexQZlg2XMUBI0VrqatDuKWacPaxAud6Uph5uCowUPLhUgNG5XKWCpoM4l1r8qYzWH+zg==",
        {"dist/shaka-player.compiled.js": "shaka-player.compiled.js", "LICENSE": "shaka-player.LICENSE"},
    ),
)


def fetch(library: Library, folder: Path = FOLDER) -> bool:
    """Bring a library's files here; False where they already are. A stamp names the version they are of."""
    stamp = folder / f".{library.name}-{library.version}"
    if stamp.is_file() and all((folder / name).is_file() for name in library.files.values()):
        return False
    folder.mkdir(parents=True, exist_ok=True)
    archive = download(library)
    with tarfile.open(fileobj=io.BytesIO(archive)) as package:
        for member, name in library.files.items():
            content = package.extractfile(f"package/{member}")
            if content is None:
                raise SystemExit(f"error  {library.name} {library.version} holds no file {member}; correct {__file__}")
            temporary = folder / f".{name}.part"
            temporary.write_bytes(content.read())
            temporary.replace(folder / name)
    for old in folder.glob(f".{library.name}-*"):
        old.unlink()
    stamp.touch()
    return True


def download(library: Library) -> bytes:
    """The package as npm has it, refused unless it is the one that was pinned."""
    address = f"{REGISTRY.rstrip('/')}/{library.name}/-/{library.name}-{library.version}.tgz"
    try:
        with urllib.request.urlopen(address, timeout=DEADLINE_S) as answer:
            archive: bytes = answer.read()
    except OSError as error:
        raise SystemExit(
            f"error  {library.name} {library.version} could not be fetched from {address} ({error}); connect, or set "
            "npm_config_registry to a mirror"
        ) from error
    found = base64.b64encode(hashlib.sha512(archive).digest()).decode()
    if found != library.sha512:
        raise SystemExit(
            f"error  {address} has SHA-512 {found}, not the pinned {library.sha512}; do not use it, look who changed it"
        )
    return archive


class PlayerLibraries(BuildHookInterface):  # type: ignore[misc,valid-type]
    """What hatchling calls before it packs a wheel. An editable install is a checkout, which `make` sets up."""

    def initialize(self, version: str, build_data: dict[str, object]) -> None:  # noqa: ARG002 - hatchling's
        if version != "editable":
            for library in LIBRARIES:
                if library.shipped:
                    fetch(library)


if __name__ == "__main__":
    for each in LIBRARIES:
        if fetch(each):
            sys.stdout.write(f"setup  {each.name} {each.version}\n")
