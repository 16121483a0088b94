"""Means over so many frames, as lines of metrics.jsonl; and an end where a figure is no number any more."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from reelrl.errors import InvalidStateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from reelrl.runs.folder import Run


class MeanWindow:
    """Rows of `columns`, the first of which tells whether the learning goes well; `remedy` is what to make smaller."""

    def __init__(self, run: Run, every: int, columns: Sequence[str], remedy: str) -> None:
        self.run, self.every, self.columns, self.remedy = run, every, tuple(columns), remedy
        self.count = 0
        self.sums = [0.0] * len(self.columns)
        self.latest: dict[str, float] = {}
        """The figures of the last whole window."""

    def add(self, first_step: int, rows: NDArray[np.float32]) -> None:
        """Take in the rows of consecutive frames."""
        for step, row in enumerate(rows.tolist(), first_step):
            if not math.isfinite(row[0]):
                raise InvalidStateError(
                    f"the {self.columns[0]} is {row[0]} at frame {step}: the learning went astray; "
                    f"resume from the last checkpoint with a smaller {self.remedy}"
                )
            self.sums = [total + value for total, value in zip(self.sums, row, strict=True)]
            self.count += 1
            if step % self.every == 0:
                self._close(step)

    def summary(self, means: dict[str, float]) -> dict[str, float]:
        """What is written of the means."""
        return means

    def _close(self, step: int) -> None:
        self.latest = self.summary(
            {name: total / self.count for name, total in zip(self.columns, self.sums, strict=True)}
        )
        self.run.log_metrics(step, self.latest)
        self.count, self.sums = 0, [0.0] * len(self.columns)
