"""Frames in blocks are the frames, and whatever happens to their source, nobody waits for it and nothing stays."""

from __future__ import annotations

import os
import signal
from itertools import islice

import pytest
import torch

from reelrl.content.feeds.kinds import Position, open_feed
from reelrl.errors import ContentError
from reelrl.see.frames.batches import BlockSource
from reelrl.see.frames.source import Upload, to_input

pytestmark = pytest.mark.slow

GAME = "ale:Breakout"


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("start", [Position(), Position(0, 160)], ids=["start", "before an episode ends"])
def test_blocks_hold_the_frames_of_the_feed(start: Position) -> None:
    shots = list(islice(open_feed(GAME, 3).shots(start), 46))
    with BlockSource(GAME, 3, [5, 1, 40], start=start) as source:
        blocks = list(source)
    assert [len(block.frames) for block in blocks] == [5, 1, 40]
    frames = torch.cat([to_input(torch.from_numpy(shot.picture).permute(2, 0, 1)) for shot in shots])
    assert torch.equal(torch.cat([block.frames for block in blocks]), frames)
    assert [cut for block in blocks for cut in block.cuts] == [shot.cut for shot in shots]
    assert [block.position for block in blocks] == [shots[number].position.next() for number in (4, 5, 45)]


def test_a_block_stays_as_it_is_while_the_next_ones_are_read() -> None:
    with BlockSource(GAME, 0, [4] * 8) as source:
        blocks = [(block.frames, block.frames.clone()) for block in source]
    assert all(torch.equal(now, then) for now, then in blocks)


def test_a_source_that_ends_too_early_is_told() -> None:
    with BlockSource("generated:street?frames=5&size=64x64", 0, [4, 4]) as source:
        blocks = iter(source)
        next(blocks)
        with pytest.raises(ContentError, match=r"ended 3 or more frames too early; ask for fewer"):
            next(blocks)


def test_a_source_that_dies_is_told() -> None:
    with BlockSource(GAME, 0, [100_000]) as source:
        os.kill(source.pid, signal.SIGKILL)
        with pytest.raises(ContentError, match=r"died \(killed by SIGKILL\)"):
            next(iter(source))


def test_closing_waits_for_no_picture_and_leaves_no_process() -> None:
    with BlockSource(GAME, 0, [100_000]) as source:
        pid = source.pid
        os.kill(pid, signal.SIGSTOP)  # it hangs, and a thread waits for it
    assert not is_alive(pid)


def test_what_is_sent_is_what_was_placed() -> None:
    upload = Upload("cpu")
    with pytest.raises(RuntimeError, match="nothing was placed"):
        upload.send()
    for number in range(6):  # more than there are slots
        upload.place(2, 3, 3)[:] = number
        assert torch.equal(upload.send(), torch.full((2, 3, 3), number, dtype=torch.uint8))
