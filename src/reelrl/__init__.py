"""Learn how video is encoded, streamed, seen and acted upon."""

from __future__ import annotations

from reelrl import foreign_imports, names

__version__ = "0.1.0"

# The whole public surface; a name is imported when it is first used.
_HOMES: dict[str, str] = {
    "ReelError": "errors",
    "Run": "runs.folder",
}

__all__ = ["__version__", *_HOMES]
__getattr__, __dir__ = names.lazy(__name__, _HOMES)


def _register_environments() -> None:
    if not names.ENVIRONMENTS:
        return
    import gymnasium

    for identifier, entry_point in names.ENVIRONMENTS.items():
        if identifier not in gymnasium.registry:
            gymnasium.register(identifier, entry_point=entry_point)


_register_environments()
foreign_imports.prepare()
