"""A part held to its bits: near its plan, and further from it where no other part makes up."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from reelrl.encode.minigop.source.in_process import RANDOM_ACCESS
from reelrl.encode.parts.coding import Budget, CodedPart, PartTask, code_part
from reelrl.encode.parts.cuts import VideoPart
from reelrl.encode.parts.held_controller import ROOM, ROOM_OF_FEW
from reelrl.encode.parts.probing import ProbeTask, probe_part
from tests.encode.fixtures import own_cache  # noqa: F401
from tests.encode.makers import scene

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.encode.minigop.source.plan import ClipPlan

pytestmark = pytest.mark.slow

CLIP = scene("street", 97, (128, 96))
SETTINGS = replace(RANDOM_ACCESS, preset=12, keyint=161, recon=False, psnr=False).for_clip(CLIP)
PART = VideoPart(0, 0, 97)


@pytest.fixture
def plan() -> ClipPlan:
    return probe_part(ProbeTask(CLIP, PART, replace(SETTINGS, qp=45)))


def coded(budget: Budget, file: Path) -> CodedPart:
    return code_part(PartTask(CLIP, PART, SETTINGS, file, budget))


def test_a_part_of_few_makes_up_on_its_way_for_a_plan_that_is_wrong_by_a_factor(tmp_path: Path, plan: ClipPlan) -> None:
    # As if the encode took a third more than its probe.
    planned = (math.log2(1.35) / 0.1,) * len(plan.minigops)
    budget = Budget(plan.bits, plan, 0.1, planned, 1.35, "rate-model")
    among_many, of_few = coded(budget, tmp_path / "1.ivf"), coded(replace(budget, room=ROOM_OF_FEW), tmp_path / "2.ivf")
    off, still_off = (abs(8 * part.size_bytes / plan.bits - 1) for part in (among_many, of_few))
    assert still_off < off / 2


def test_no_decision_is_far_from_the_plan(tmp_path: Path, plan: ClipPlan) -> None:
    budget = Budget(4 * plan.bits, plan, 0.1, (1.0,) * len(plan.minigops), 1.0, "rate-model")
    part = coded(budget, tmp_path / "1.ivf")
    assert set(part.deltas) == {1.0 - ROOM}
