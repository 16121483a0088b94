"""Parts that are coded again: only where the whole is off, as few as will do, and by what they took before."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis.strategies import floats, integers, lists

from reelrl.encode.minigop.source.in_process import RANDOM_ACCESS
from reelrl.encode.parts.again import FAR, budget_again, to_code_again
from reelrl.encode.parts.coding import Budget, CodedPart, PartTask, code_part
from reelrl.encode.parts.cuts import VideoPart
from reelrl.encode.parts.probing import ProbeTask, probe_part
from tests.encode.fixtures import own_cache  # noqa: F401
from tests.encode.makers import scene

if TYPE_CHECKING:
    from pathlib import Path


def coded(size_bytes: int) -> CodedPart:
    return CodedPart(0, 16, size_bytes, "", [], [], 0.0, 50, None)


@given(lists(integers(10_000, 100_000), min_size=1, max_size=20), floats(0.9, 1.1))
def test_enough_parts_to_make_up_for_the_whole_and_no_more(sizes: list[int], off: float) -> None:
    parts = [coded(size) for size in sizes]
    budget = 8 * sum(sizes) / off
    chosen, change = to_code_again(parts, budget)
    if abs(off - 1) < 0.99 * FAR:
        assert not chosen
    if chosen:
        again = sum(8 * part.size_bytes for part in chosen)
        assert 8 * sum(sizes) - again + change * again == pytest.approx(budget)
        assert abs(change - 1) <= 1 / 6 + 1e-9 or len(chosen) == len(parts)
        without_last = again - 8 * chosen[-1].size_bytes
        assert without_last < 6 * abs(8 * sum(sizes) - budget)


@pytest.mark.slow
def test_a_part_coded_again_is_nearer_each_time(tmp_path: Path) -> None:
    clip = scene("street", 60, (128, 96))
    settings = replace(RANDOM_ACCESS, preset=12, keyint=161, recon=False, psnr=False).for_clip(clip)
    part = VideoPart(0, 0, 60)
    plan = probe_part(ProbeTask(clip, part, replace(settings, qp=45)))
    first = Budget(1.5 * plan.bits, plan, 0.05, (-6.0,) * len(plan.minigops))  # the slope is wrong by half
    before = code_part(PartTask(clip, part, settings, tmp_path / "1.ivf", first))
    again = budget_again(first, before, 0.9)
    after = code_part(PartTask(clip, part, settings, tmp_path / "2.ivf", again))
    assert after.size_bytes / before.size_bytes == pytest.approx(0.9, abs=0.15)
    once_more = budget_again(again, after, 1.1)
    assert once_more.octaves_per_qp > 1.2 * again.octaves_per_qp  # learnt from both
    last = code_part(PartTask(clip, part, settings, tmp_path / "3.ivf", once_more))
    assert last.size_bytes / after.size_bytes == pytest.approx(1.1, abs=0.04)
