"""What each test costs in CPU time, its child processes included; wall time would blame a test for its neighbours."""

from __future__ import annotations

import os

BUDGET_S = 20.0
"""More than this in the default suite deserves smaller inputs, or a tier."""


def cpu_s() -> float:
    """CPU time of this process, its threads and the children that it has waited for."""
    return sum(os.times()[:4])


class Costs:
    """Sums over the phases of each test."""

    def __init__(self) -> None:
        self.by_test: dict[str, float] = {}

    def add(self, nodeid: str, seconds: float) -> None:
        self.by_test[nodeid] = self.by_test.get(nodeid, 0.0) + seconds

    def lines(self, count: int = 10) -> list[str]:
        """The whole, then the dearest tests; those over budget are told so."""
        dearest = sorted(self.by_test, key=lambda nodeid: -self.by_test[nodeid])[:count]
        whole = f"{sum(self.by_test.values()):6.0f} s  {len(self.by_test)} tests; the dearest:"
        return [whole, *(self._line(nodeid) for nodeid in dearest)]

    def _line(self, nodeid: str) -> str:
        spent_s = self.by_test[nodeid]
        advice = f"  over {BUDGET_S:.0f} s: make it smaller, or give it a tier" if spent_s > BUDGET_S else ""
        return f"{spent_s:6.1f} s  {nodeid}{advice}"
