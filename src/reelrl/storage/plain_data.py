"""Plain data out of text that others wrote: JSON, and the limits that hold for YAML too.

    facts = parse_json(path.read_bytes())      # ValueError, with a short text, for whatever is wrong with it

Data that passed is safe to walk, print and compare: it is not nested deeper than Python can follow, YAML's aliases did
not multiply it, and its whole numbers fit into a float.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from reelrl.errors import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

DEEPEST = 64
MOST_ITEMS = 20_000_000
LARGEST_INT = 2**1023


def parse_json(text: str | bytes) -> Any:
    """The value that JSON text holds; ValueError where it is no JSON or beyond the limits."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(f"it is nested deeper than {DEEPEST} levels") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is no UTF-8 text") from None
    check_limits(value)
    return value


def parse_object(text: str | bytes) -> dict[str, Any]:
    """`parse_json`, of an object."""
    value = parse_json(text)
    if not isinstance(value, dict):
        raise ValueError(f"it holds {type(value).__name__}, where an object {{...}} is wanted")
    return value


def check_limits(value: Any, most_items: int = MOST_ITEMS) -> None:
    """Raise ValueError for plain data that is nested too deeply, has too many items or numbers beyond a float."""
    _check_ints([("it", value)])
    level, depth, items = [value], 0, 0
    while level:
        if depth >= DEEPEST and any(isinstance(each, dict | list) for each in level):
            raise ValueError(f"it is nested deeper than {DEEPEST} levels")
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner.extend(each.values())
                _check_ints(each.items())
            elif isinstance(each, list):
                inner.extend(each)
                _check_ints(enumerate(each))
            if items + len(inner) > most_items:  # before aliases of aliases fill the memory
                raise ValueError(f"it has more than {most_items:,} items, aliases written out")
        items += len(inner)
        level, depth = inner, depth + 1


def _check_ints(items: Iterable[tuple[Any, Any]]) -> None:
    for key, item in items:
        if isinstance(item, int) and abs(item) >= LARGEST_INT:
            raise ValueError(f"{shown(key)} is a whole number of {item.bit_length()} bits; numbers end below 1e308")
