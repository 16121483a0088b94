"""The first sentence of a page: who is better than whom, by how much, and how sure that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelrl.report.charts import signed

if TYPE_CHECKING:
    from reelrl.report.intervals import Interval


def compared(first: str, second: str, more: Interval, unit: str, digits: int = 3) -> tuple[str, str]:
    """Headline, and a sentence with the interval. `more` is how much better `first` is than `second`, paired.

    An interval that holds zero shows no difference, whatever its mean.
    """
    low, high = signed(more.low, digits), signed(more.high, digits)
    sure = f"Paired difference {signed(more.mean, digits)} {unit}, 95 % interval {low} to {high}."
    # "Beats" is for intervals that leave zero out; a mean alone would name a winner in every tie.
    if more.low <= 0 <= more.high:
        return f"{first} and {second}: no difference shown", sure
    winner, loser = (first, second) if more.low > 0 else (second, first)
    return f"{winner} beats {loser} by {abs(more.mean):.{digits}f} {unit}", sure
