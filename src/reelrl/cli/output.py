"""What commands print: one aligned line per event (word, place, value), or JSON.

run    runs/0007-minigop-sac      seed 3   SVT-AV1 4.1.0
next   reel evaluate runs/0007-minigop-sac
"""

from __future__ import annotations

import json
from typing import Any


def line(word: str, place: object = "", *values: object) -> None:
    """Print one event; what the values mean stands beside them ("seed 3", "212 steps/s")."""
    tail = "   ".join(str(value) for value in values)
    print(f"{word:<7}{place!s:<26} {tail}".rstrip() if tail else f"{word:<7}{place}".rstrip(), flush=True)


def next_command(command: str) -> None:
    """Print the last line: what to run next."""
    line("next", command)


def as_json(value: Any) -> None:
    print(json.dumps(value, indent=2, default=str), flush=True)
