"""Learn how video is encoded, streamed, seen and acted upon."""

from __future__ import annotations

from typing import Any

from reelrl import names

__version__ = "0.1.0"

# The whole public surface; a name is imported when it is first used.
_PUBLIC: dict[str, str] = {
    "ReelError": "reelrl.errors:ReelError",
    "Run": "reelrl.runs.folder:Run",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'reelrl' has no attribute {name!r}{names.did_you_mean(name, _PUBLIC)}")
    value = names.resolve(_PUBLIC, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})


def _register_environments() -> None:
    if not names.ENVIRONMENTS:
        return
    import gymnasium

    for identifier, entry_point in names.ENVIRONMENTS.items():
        if identifier not in gymnasium.registry:
            gymnasium.register(identifier, entry_point=entry_point)


_register_environments()
