"""Who may import whom, read from the source: see CONTRIBUTING.md."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import reelrl

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(reelrl.__file__).parent
FILES = sorted(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py"))

# Folder -> folders it may import besides the base; "" is the base. Every folder of the package must be here.
ALLOWED: dict[str, set[str]] = {
    "": set(),
    "settings": set(),
    "runs": set(),
    "storage": set(),
    "parallel": set(),
    "content": set(),
    "agents": set(),
    "report": {"content"},
    "encode": {"content", "agents", "report"},
    "stream": {"content", "agents", "report", "encode"},
    "see": {"content", "agents", "report"},
    "act": {"content", "agents", "report", "see"},
    "cli": {"content", "agents", "report", "encode", "stream", "see", "act"},
}

# Folders that belong to the base, as its single files do.
BASE = {"", "settings", "runs", "storage", "parallel"}

# Heavy or optional package -> folders that own it.
OWNERS: dict[str, set[str]] = {
    "ale_py": {"content"},
    "av": {"content", "encode", "stream"},
    "benchmarl": {"act"},
    "cv2": {"content", "encode", "see", "act"},
    "cffi": {"encode"},
    "huggingface_hub": {"runs"},
    "imageio_ffmpeg": {"content", "encode"},
    "matplotlib": set(),
    "numba": {"content", "encode", "stream", "see"},
    "onnx": {"stream"},
    "pettingzoo": {"act"},
    "playwright": set(),
    "optuna": {"runs"},
    "ray": {"agents", "parallel"},
    "stable_baselines3": {"agents"},
    "starlette": {"stream"},
    "torch": {"agents", "stream", "see", "act"},
    "torchrl": {"agents", "act"},
    "transformers": {"act"},
    "uvicorn": {"stream"},
    "vizdoom": {"act"},
}


def folder_of(path: Path) -> str:
    return path.parts[0] if len(path.parts) > 1 else ""


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Dotted names that the file imports when it runs, and whether that happens while the file itself is imported."""
    yield from _imports(ast.parse((SOURCE / path).read_text(encoding="utf-8")), path, at_once=True)


def _imports(node: ast.AST, path: Path, at_once: bool) -> Iterator[tuple[str, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ((alias.name, at_once) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"{path} line {child.lineno}: write imports in full, not relative"
            # `from reelrl import content` names the folder in its last part.
            yield from ((f"{child.module}.{alias.name}", at_once) for alias in child.names)
        elif isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            yield from (found for part in child.orelse for found in _imports(part, path, at_once))
        else:
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _imports(child, path, at_once and not inside)


def our_folder(name: str) -> str | None:
    """The folder of ours that a dotted name lies in; None for foreign names."""
    parts = name.split(".")
    if parts[0] != "reelrl":
        return None
    return parts[1] if len(parts) > 1 and (SOURCE / parts[1]).is_dir() else ""


@pytest.mark.parametrize("path", FILES, ids=str)
def test_a_file_imports_only_what_lies_left_of_it(path: Path) -> None:
    mine = folder_of(path)
    assert mine in ALLOWED, f"{mine} is a new folder: say in ALLOWED what it may import"
    for name, _ in imports(path):
        theirs = our_folder(name)
        allowed = {None, mine} | BASE | ALLOWED[mine]
        assert theirs in allowed, f"{path} imports {name}: reach it through names.py"


@pytest.mark.parametrize("path", FILES, ids=str)
def test_heavy_packages_are_touched_only_by_their_owners(path: Path) -> None:
    for name, _ in imports(path):
        owners = OWNERS.get(name.split(".")[0])
        assert owners is None or folder_of(path) in owners, f"{path} imports {name}"


@pytest.mark.parametrize("path", [path for path in FILES if folder_of(path) == "cli"], ids=str)
def test_commands_import_stages_inside_functions(path: Path) -> None:
    at_once = [name for name, now in imports(path) if now and our_folder(name) not in BASE | {None, "cli"}]
    assert at_once == []


def test_the_checker_sees_what_it_must(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.test_imports.SOURCE", tmp_path)
    (tmp_path / "encode").mkdir()
    (tmp_path / "a.py").write_text(
        "from typing import TYPE_CHECKING\nimport torch.nn\nif TYPE_CHECKING:\n    import av\n"
        "def f():\n    from reelrl import encode\nclass C:\n    import cv2\n"
    )
    assert list(imports(Path("a.py"))) == [
        ("typing.TYPE_CHECKING", True),
        ("torch.nn", True),
        ("reelrl.encode", False),
        ("cv2", True),
    ]
    assert [our_folder(name) for name in ("reelrl.encode.x", "reelrl.encode", "reelrl.settings.config", "av")] == [
        "encode",
        "encode",
        "",
        None,
    ]


@pytest.mark.parametrize(("room", "other"), [("superblock", "minigop"), ("minigop", "superblock")])
def test_rooms_of_encode_share_by_way_of_encode_itself(room: str, other: str) -> None:
    for path in FILES:
        if path.parts[:2] == ("encode", room):
            assert not [name for name, _ in imports(path) if name.startswith(f"reelrl.encode.{other}")], path
