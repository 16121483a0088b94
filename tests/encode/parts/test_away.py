"""Parts coded where their folder is not seen: their files come home, and what is there is not coded again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reelrl.encode.parts.away import code_anywhere, code_part_away
from reelrl.encode.parts.board import ProgressBoard
from reelrl.encode.parts.coding import code_part, finished
from reelrl.parallel import InProcess
from tests.encode.fixtures import own_cache  # noqa: F401
from tests.encode.parts.test_coding import tasks

pytestmark = pytest.mark.slow


def test_where_the_folder_is_not_seen_the_files_travel(tmp_path: Path) -> None:
    task = tasks(tmp_path / "home")[0]
    here = code_part(tasks(tmp_path)[0])
    sent = code_part_away(task)
    assert sorted(sent.files) == [task.file.name, task.file.with_suffix(".json").name]
    assert not task.file.parent.exists()  # nothing is left on the machine that coded it
    task.file.parent.mkdir()
    assert finished(task) is None
    part = sent.received()
    assert list(part.packets()) == list(here.packets())
    assert finished(task) == part == replace(here, file=str(task.file))


def test_what_is_finished_stays_at_home(tmp_path: Path) -> None:
    both = tasks(tmp_path)
    first = code_part(both[0])
    before = both[0].file.stat().st_mtime_ns
    board = ProgressBoard(tmp_path / "board", 2)
    placed = [replace(task, place=board.place(number)) for number, task in enumerate(both)]
    coded = list(code_anywhere(InProcess(), placed))
    assert coded[0] == first
    assert both[0].file.stat().st_mtime_ns == before
    assert coded == [finished(task) for task in both]
    assert board.totals()[0] == 48  # both are counted as read


def test_a_part_that_is_known_to_be_finished_is_not_coded_where_its_folder_is_not_seen(tmp_path: Path) -> None:
    coded = code_part(tasks(tmp_path)[0])
    elsewhere = replace(tasks(tmp_path / "unseen")[0], coded=coded)
    sent = code_part_away(elsewhere)
    assert sent.received() is coded
    assert not sent.files


def test_progress_that_nobody_can_see_is_no_error(tmp_path: Path) -> None:
    place = ProgressBoard(tmp_path / "board", 1).place(0)
    elsewhere = replace(place, board=Path("/nowhere/board"))
    coded = code_part(replace(tasks(tmp_path)[0], place=elsewhere))
    assert coded.frames == 24
