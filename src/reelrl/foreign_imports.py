"""Makes `import benchmarl` work after `import reelrl`: BenchMARL 1.5.2 wants a class by a name that torchrl gave up.

Nothing is imported here; what is to be mended is mended when somebody imports BenchMARL.
"""

from __future__ import annotations

import importlib
import sys
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType


class _BeforeBenchMarl(MetaPathFinder):
    """Finds no module; it is asked first, and so hears of the import in time."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        del path, target
        if fullname == "benchmarl":
            # It stays where it is: to leave the list while it is gone through would hide the finder behind it.
            name_collectors()


def prepare() -> None:
    """Be asked before BenchMARL is imported; once it was, there is nothing to mend."""
    if "benchmarl" not in sys.modules:
        sys.meta_path.insert(0, _BeforeBenchMarl())


def name_collectors() -> None:
    """Give torchrl's collector the name that it had before 0.13; without torchrl nothing happens."""
    try:
        collectors = importlib.import_module("torchrl.collectors")
    except ModuleNotFoundError:  # BenchMARL's own import says what is missing
        return
    if not hasattr(collectors, "SyncDataCollector"):
        collectors.SyncDataCollector = collectors.Collector  # type: ignore[attr-defined]
