"""A part on its own: at a quality or to a budget, found again when it is there, and joined with others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from reelrl.content.clip import Clip, concatenate
from reelrl.content.write.video import write_bitstream
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.codecs.whole_clip import encode_clip
from reelrl.encode.parts.coding import PartTask, code_part, finished, joined
from reelrl.encode.parts.cuts import VideoPart
from reelrl.encode.parts.folder import PartsFolder
from reelrl.parallel import executor
from tests.encode.fixtures import own_cache  # noqa: F401
from tests.encode.makers import scene

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

CLIP = concatenate([scene("street", 24, (96, 64)), scene("talk", 24, (96, 64))])
SETTINGS = EncoderSettings(preset=12, rate_control="crf", structure="random_access", qp=40, keyint=161).for_clip(CLIP)
PARTS = (VideoPart(0, 0, 24), VideoPart(1, 24, 24))


def tasks(folder: Path, **changes: int) -> list[PartTask]:
    settings = replace(SETTINGS, **changes)  # type: ignore[arg-type]
    return [PartTask(CLIP, part, settings, folder / f"{part.number}-{settings.qp}.ivf") for part in PARTS]


def test_a_part_is_what_the_encoder_makes_of_its_frames(tmp_path: Path) -> None:
    coded = code_part(tasks(tmp_path)[1])
    alone = encode_clip(CLIP.window(24, 24), SETTINGS)
    assert list(coded.packets()) == [packet.data for packet in alone.packets]
    assert coded.psnr_y == pytest.approx(alone.psnr_y)
    assert (coded.number, coded.frames, coded.size_bytes) == (1, 24, alone.size_bytes)
    assert coded.qps == [packet.qp for packet in alone.packets]


def test_joined_parts_play_from_the_first_frame_to_the_last(tmp_path: Path) -> None:
    chosen = [replace(SETTINGS, qp=qp) for qp in (30, 55)]
    both = zip(tasks(tmp_path), chosen, strict=True)
    coded = [code_part(replace(task, settings=settings)) for task, settings in both]
    write_bitstream(tmp_path / "out.mkv", joined(coded), CLIP.width, CLIP.height, CLIP.fps)
    played = list(Clip.open(tmp_path / "out.mkv"))
    alone = []
    for part, settings in zip(PARTS, chosen, strict=True):
        packets = encode_clip(CLIP.window(part.first, part.frames), settings).packets
        alone += [packet.recon for packet in packets]
    assert [frame.data.tobytes() for frame in played] == [frame.data.tobytes() for frame in alone if frame is not None]


def test_a_part_that_is_there_is_found_and_a_damaged_one_is_not(tmp_path: Path) -> None:
    task = tasks(tmp_path)[0]
    assert finished(task) is None
    coded = code_part(task)
    before = task.file.stat().st_mtime_ns
    assert finished(task) == code_part(task) == coded
    assert task.file.stat().st_mtime_ns == before
    task.file.write_bytes(task.file.read_bytes()[:-3])
    assert finished(task) is None
    assert code_part(task) == coded
    task.file.with_suffix(".json").write_text("{}")
    assert finished(task) is None


def test_worker_processes_write_the_same_parts(tmp_path: Path) -> None:
    here = [code_part(task) for task in tasks(tmp_path)]
    (tmp_path / "there").mkdir()
    with executor(2) as work:
        there = list(work.map(code_part, tasks(tmp_path / "there")))
    assert [list(part.packets()) for part in there] == [list(part.packets()) for part in here]


def test_the_folder_names_a_part_by_its_pictures_and_settings(tmp_path: Path) -> None:
    folder = PartsFolder(tmp_path / "out.mkv")
    names = {
        folder.file(content, settings, *facts)
        for content in ("a", "b")
        for settings in (SETTINGS, replace(SETTINGS, qp=41), replace(SETTINGS, preset=8))
        for facts in ((), (1000.0,))
    }
    assert len(names) == 12
    assert folder.file("a", SETTINGS) == folder.file("a", replace(SETTINGS, deadline_s=7))
    folder.close()
    assert not folder.path.exists()  # nothing was in it


def test_the_folder_keeps_parts_for_those_who_go_on_only(tmp_path: Path) -> None:
    folder = PartsFolder(tmp_path / "out.mkv")
    code_part(replace(tasks(folder.path)[0], file=folder.file("a", SETTINGS)))
    folder.close()
    again = PartsFolder(tmp_path / "out.mkv", resume=True)
    assert again.finished == 1
    again.close()
    afresh = PartsFolder(tmp_path / "out.mkv")
    assert afresh.finished == 0
    afresh.remove()
    assert list(tmp_path.iterdir()) == []
