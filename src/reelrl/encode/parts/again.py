"""Parts that are coded again, because the whole came out too far from its budget.

What a part took the first time is the best probe there is: by the encode's own preset, at the QPs in question.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from reelrl.encode.minigop.source.preparation import possible_slope
from reelrl.encode.parts.coding import Budget

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reelrl.encode.parts.coding import CodedPart

FAR, FAR_OF_ONE = 0.03, 0.04
"""Shares of the budget that the whole may be off by: beyond, a few parts are coded again. A file of one part may be
further off, because all of it would be."""

TIMES = 2
"""How often at the most."""

_LARGEST_CHANGE = 1 / 6  # of the bits of these parts
_LEAST_STEP = 0.3  # in QP: less shows nothing


def to_code_again(coded: Iterable[CodedPart], budget_bits: float) -> tuple[list[CodedPart], float]:
    """Those of the parts, in their order, that are enough to make up for the whole; and what they may take of before.

    None where the budget is met well enough.
    """
    parts = list(coded)
    off = sum(8 * part.size_bytes for part in parts) - budget_bits
    chosen: list[CodedPart] = []
    if abs(off) <= (FAR_OF_ONE if len(parts) == 1 else FAR) * budget_bits:
        return chosen, 1.0
    bits = 0
    for part in parts:
        chosen.append(part)
        bits += 8 * part.size_bytes
        if _LARGEST_CHANGE * bits >= abs(off):
            break
    return chosen, max(1 - off / bits, 0.5)


def budget_again(first: Budget, coded: CodedPart, change: float) -> Budget:
    """For a part that was coded by a budget: its QPs are the plan now, moved so that its bits change by a factor."""
    sizes = [len(packet) for packet in coded.packets()]
    minigops = tuple(
        replace(
            planned,
            layer_qps=tuple(coded.qps[planned.first_frame : planned.first_frame + planned.frames]),
            probe_bits=8 * sum(sizes[planned.first_frame : planned.first_frame + planned.frames]),
        )
        for planned in first.plan.minigops
    )
    slope = _slope(first, coded)
    deltas = (-math.log2(change) / slope,) * len(minigops)
    plan = replace(first.plan, minigops=minigops)
    # Opened at another QP the encoder would take other bits for the same pictures' QPs.
    return Budget(8 * coded.size_bytes * change, plan, slope, deltas, session_qp=coded.session_qp)


def _slope(first: Budget, coded: CodedPart) -> float:
    """What a QP step takes from the bits: as the last two encodes of a part show, where there were two."""
    step = first.deltas[0]
    if first.session_qp is None or abs(step) < _LEAST_STEP:
        return first.octaves_per_qp
    return possible_slope(math.log2(first.plan.bits / (8 * coded.size_bytes)) / step)
