"""A module that must not be imported: it leaves a mark where it is. Files of every kind name it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MODULE = "canary_code"
CANARY = f"{MODULE}:Boom"
SOURCE = """
from pathlib import Path
Path(__file__).with_name("ran").write_text("imported")
class Boom:
    privileged = False
    def __init__(self, *args, **kwargs): ...
    def reset(self, *args): ...
    def act(self, *args): return 0.0
"""


class Canary:
    """A folder with a module in it that must not be imported."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / f"{MODULE}.py").write_text(SOURCE)

    @property
    def alive(self) -> bool:
        return not (self.folder / "ran").exists() and MODULE not in sys.modules
