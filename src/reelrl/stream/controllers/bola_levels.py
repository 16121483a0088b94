"""BOLA's arithmetic: which rung goes with which buffer, for a ladder with logarithmic utilities.

    score of a rung = (v (utility + gp) - buffer) / rate          the highest wins

`v` and `gp` are chosen as in dash.js and Sabre: from `MINIMUM_S` of buffer for the lowest rung to `buffer_s` for the
highest. Utilities are 1 for the lowest rung and grow with the logarithm of the rate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MINIMUM_S = 10.0
PER_RUNG_S = 2.0
MOMENT_S = 1e-6


@dataclass(frozen=True, eq=False)
class BolaLevels:
    """Rates in kbit/s, utilities, and BOLA's two constants."""

    rates: Floats
    utilities: Floats
    v: float
    gp: float

    @staticmethod
    def of(rates_kbps: Floats, buffer_s: float) -> BolaLevels:
        """For a player that means to hold `buffer_s`; many rungs need more, 2 s each above 10 s."""
        gains = np.log(rates_kbps / rates_kbps[0])
        room_s = max(buffer_s, MINIMUM_S + PER_RUNG_S * len(rates_kbps)) - MINIMUM_S
        # One rung has nothing to gain; any v serves.
        v = room_s / gains[-1] if len(rates_kbps) > 1 else 1.0
        return BolaLevels(rates_kbps, gains + 1.0, float(v), float(MINIMUM_S / v))

    def rung_at(self, buffer_s: float) -> int:
        """What BOLA downloads at this buffer; the higher one where two are equal."""
        # Placeholders put the buffer exactly where a rung begins: rounding must not decide there.
        return int(np.argmax((self.v * (self.utilities + self.gp) - buffer_s - MOMENT_S) / self.rates))

    def least(self, rung: int) -> float:
        """The buffer from which on this rung is preferred to every lower one."""
        rate, utility = self.rates[rung], self.utilities[rung]
        below, gains = self.rates[:rung], self.utilities[:rung]
        levels = self.v * (self.gp + (rate * gains - below * utility) / (rate - below))
        return float(max(levels.max(initial=0.0), 0.0))

    def most(self, rung: int) -> float:
        """The buffer above which BOLA would rather wait than download this rung."""
        return float(self.v * (self.utilities[rung] + self.gp))
