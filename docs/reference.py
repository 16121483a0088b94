"""Writes docs/reference from the code: environments, packages, settings and commands, in their own words."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
from typing import TYPE_CHECKING, Any

from reelrl import names
from reelrl.cli.main import COMMANDS
from reelrl.runs.stages import STAGES

if TYPE_CHECKING:
    from pathlib import Path

PACKAGES = ("reelrl", "reelrl.content", "reelrl.encode", "reelrl.stream", "reelrl.see", "reelrl.act")
DOOM_ENVIRONMENT = "reelrl.act:VizDoomCoopParallelEnv"


def write(folder: Path) -> None:
    """Fill `folder` with pages; what another version left there goes away."""
    folder.mkdir(exist_ok=True)
    pages = {"environments": environments(), "settings": settings(), "commands": commands()}
    pages |= {package: public_names(package) for package in PACKAGES}
    for old in folder.glob("*.md"):
        if old.stem not in {*pages, "index"}:
            old.unlink()
    for name, text in (pages | {"index": index(list(pages))}).items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # an unchanged page is not built again
            path.write_text(text, encoding="utf-8")


def index(pages: list[str]) -> str:
    toctree = "```{toctree}\n:maxdepth: 2\n\n" + "\n".join(pages) + "\n```\n"
    return f"# Reference\n\nMade from docstrings, settings and `--help`.\n\n{toctree}"


def environments() -> str:
    """Every environment with its spaces, rewards and `info`, as its docstring says them."""
    parts = ["# Environments\n"]
    for identifier, target in {**names.ENVIRONMENTS, "VizDoomCoopParallelEnv": DOOM_ENVIRONMENT}.items():
        kind = _object(target)
        parts.append(f"## `{identifier}`\n\n{_signature(kind)}\n\n{_docstring(kind, below=2)}\n")
    return "\n".join(parts)


def public_names(package: str) -> str:
    """What a package offers, with signatures."""
    module = importlib.import_module(package)
    parts = [f"# `{package}`\n\n```text\n{inspect.getdoc(module)}\n```\n"]
    for name in sorted(set(module.__all__) - {"__version__"}, key=str.lower):
        value = getattr(module, name)
        if not callable(value):
            parts.append(f"## `{name}`\n\n`{value!r}`\n" if len(repr(value)) < 200 else f"## `{name}`\n")
            continue
        parts.append(f"## `{name}`\n\n{_signature(value)}\n\n{_docstring(value, below=2)}\n")
        parts += _methods(value)
    return "\n".join(parts)


def settings() -> str:
    """The settings of every train command: dotted key, type, default."""
    parts = ["# Settings\n\nChanged by `--set key=value`, or in a YAML file given to `--config`.\n"]
    for stage in STAGES.values():
        kind = _object(stage.settings)
        parts.append(f"## `reel {stage.train}`: `{kind.__name__}`\n\n{_docstring(kind, below=2)}\n")
        parts.append("| key | type | default |\n|---|---|---|")
        parts += [f"| `{key}` | {_escaped(type_)} | {_escaped(default)} |" for key, type_, default in _fields(kind)]
        parts.append("")
    return "\n".join(parts)


def commands() -> str:
    """`reel COMMAND --help` of every command."""
    parts = ["# Commands\n"]
    for command in sorted(COMMANDS):
        module = importlib.import_module(COMMANDS[command][0])
        parser = argparse.ArgumentParser(
            prog=f"reel {command}", description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        module.add_arguments(parser)
        parts.append(f"## `reel {command}`\n\n```text\n{parser.format_help().rstrip()}\n```\n")
    return "\n".join(parts)


def _fields(kind: Any, prefix: str = "") -> list[tuple[str, str, str]]:
    """Fields of a settings class, nested ones by dotted keys."""
    rows: list[tuple[str, str, str]] = []
    for field in dataclasses.fields(kind):
        default = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
        if dataclasses.is_dataclass(default) and not isinstance(default, type):
            rows += [(key, type_, str(value)) for key, type_, value in _fields(type(default), f"{prefix}{field.name}.")]
        else:
            missing = default is dataclasses.MISSING
            rows.append((prefix + field.name, str(field.type), "(required)" if missing else repr(default)))
    return rows


def _methods(kind: Any) -> list[str]:
    if not inspect.isclass(kind) or issubclass(kind, tuple):
        return []
    found = []
    for name, member in vars(kind).items():
        public = inspect.isfunction(member) and not name.startswith("_")
        if public and inspect.getdoc(member):
            found.append(f"### `{kind.__name__}.{name}`\n\n{_signature(member)}\n\n{_docstring(member, below=3)}\n")
    return found


def _signature(value: Any) -> str:
    try:
        signature = str(inspect.signature(value)).replace("NDArray[numpy.", "NDArray[np.")
    except (TypeError, ValueError):
        return ""
    name = value.__qualname__ if hasattr(value, "__qualname__") else type(value).__name__
    if len(name + signature) > 100:
        inner = ",\n    ".join(str(p) for p in inspect.signature(value).parameters.values() if p.name != "self")
        signature = f"(\n    {inner},\n)"
    return f"```python\n{name}{signature}\n```"


def _docstring(value: Any, *, below: int) -> str:
    """The docstring as Markdown; its headings go under the page's, its indented code stays code."""
    text = inspect.getdoc(value) or ""
    lines = [("#" * (below - 1) + line if line.startswith("## ") else line) for line in text.splitlines()]
    return "\n".join(lines)


def _object(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def _escaped(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")
