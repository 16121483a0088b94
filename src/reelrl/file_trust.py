"""What text in a file may name. Policies, runs and settings are data: loading them runs nobody's code.

A name that stands in a file is looked up in our tables (`reelrl.names`) and nowhere else. "package.module:Class", a
program or its arguments are taken from the command line and from Python, which say `foreign=True`; from a file only
after `--trust`:

    with trusting_files():
        controller = load_minigop_controller("runs/0007")
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from reelrl.errors import ConfigError, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

# Words before a colon that name pictures to look at, never a module: "ale:Breakout".
SCHEMES = frozenset({"ale", "atari", "clip", "doom", "file", "generated", "gym"})
# Settings whose text starts a program, is passed to one, or is loaded by a library that unpickles.
PROGRAMS = frozenset({"encoder", "extra_game_args", "restore_file"})
_OF_TORCH = re.compile(r"torch\.nn\.[A-Z]\w*")

_trusted = False


def files_are_trusted() -> bool:
    return _trusted


@contextmanager
def trusting_files(trust: bool = True) -> Iterator[None]:
    """Files that are read inside may name foreign code, in all threads; with False, nothing changes."""
    global _trusted
    before, _trusted = _trusted, trust or _trusted
    try:
        yield
    finally:
        _trusted = before


def is_foreign(text: str) -> bool:
    """Whether the text is a "package.module:Class", perhaps with brackets behind it, or a "gym:" that imports one."""
    module, _, attribute = text.partition("(")[0].strip().partition(":")
    if module in SCHEMES:
        return module == "gym" and ":" in attribute
    return all(word.isidentifier() for word in (*module.split("."), attribute))


def refuse_foreign(value: Any, origin: object) -> None:
    """Raise ConfigError where plain data from a file names code or programs that are not ours, unless trusted."""
    if _trusted:
        return
    left: list[tuple[str, Any]] = [("", value)]
    while left:
        key, item = left.pop()
        if isinstance(item, dict):
            left += [(f"{key}.{name}" if key else str(name), each) for name, each in item.items()]
        elif isinstance(item, list | tuple):
            left += [(key, each) for each in item]
        elif isinstance(item, str) and (is_foreign(item) or _runs(key.rpartition(".")[2], item)):
            raise refusal(f"{origin}: {key or 'it'} is", item)


def refusal(what: str, text: str) -> ConfigError:
    return ConfigError(
        f"{what} {shown(text)}, which would run code from outside reelrl; pass --trust if you wrote this file "
        "yourself, or take it out and give it on the command line"
    )


def _runs(key: str, text: str) -> bool:
    """Whether the text under this key is run or imported: a program, or BenchMARL's `activation_class`."""
    if key.endswith("_class"):
        return _OF_TORCH.fullmatch(text) is None
    return key in PROGRAMS and bool(text.strip())
