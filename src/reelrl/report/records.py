"""The files that an evaluation leaves for other programs: a CSV file per table, and a summary as JSON."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

from reelrl.storage.files import write_atomic
from reelrl.storage.regular_files import own_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def write(
    folder: Path,
    tables: Mapping[str, Sequence[Mapping[str, Any]]],
    summary: Mapping[str, Any],
    facts: Mapping[str, Any],
    *,
    name: str = "summary",
) -> None:
    """A file TABLE.csv for each table, and summary.json: `facts` (what was evaluated, and how), then conclusions.

    A table without rows is written too, so that none of an earlier evaluation stays in the folder.
    """
    for table, rows in tables.items():
        write_atomic(own_path(folder / f"{table}.csv"), csv_text(rows))
    whole = {"facts": dict(facts), **summary}
    write_atomic(own_path(folder / f"{name}.json"), json.dumps(whole, indent=2) + "\n")


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows under the names of the first one's columns."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else ["nothing"])
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
