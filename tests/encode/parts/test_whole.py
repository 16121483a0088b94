"""A video by parts: the budget is met, the same bytes whoever works, and what was finished is not coded again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from reelrl.content.clip import Clip, concatenate
from reelrl.content.write.video import write_video
from reelrl.encode.minigop.source.in_process import RANDOM_ACCESS
from reelrl.encode.parts.folder import PartsFolder
from reelrl.encode.parts.whole import EncodedParts, PartsJob, encode_parts
from reelrl.encode.parts.window import planned
from reelrl.errors import ConfigError
from tests.encode.fixtures import own_cache  # noqa: F401
from tests.encode.makers import scene

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

SIZE = (128, 96)
SHOTS = [scene(style, 36, SIZE) for style in ("street", "talk", "pan")]
CLIP = concatenate(SHOTS)
SETTINGS = replace(RANDOM_ACCESS, preset=12, keyint=161, recon=False, psnr=False).for_clip(CLIP)


@pytest.fixture
def clip(tmp_path: Path) -> Clip:
    write_video(tmp_path / "in.y4m", CLIP)
    return Clip.open(tmp_path / "in.y4m")


def coded(job: PartsJob, output: Path, *, resume: bool = False) -> EncodedParts:
    with PartsFolder(output, resume=resume) as folder:
        return encode_parts(job, folder)


def test_the_parts_are_the_scenes_and_share_the_budget(tmp_path: Path, clip: Clip) -> None:
    encoded = coded(PartsJob(clip, SETTINGS, 150, workers=1), tmp_path / "out.mkv")
    assert [part.frames for part in encoded.parts] == [36, 36, 36]
    assert sum(map(len, encoded.packets())) == encoded.size_bytes
    assert abs(encoded.kbps / 150 - 1) < 0.15  # parts of a second leave few decisions to correct with
    # One quality for all: what is easy to code gets fewer bits.
    street, talk, pan = (part.size_bytes for part in encoded.parts)
    assert talk < street < 3 * pan


def test_the_same_bytes_whatever_the_number_of_workers(tmp_path: Path) -> None:
    shots = [scene(style, 30 + 6 * number, SIZE) for number, style in enumerate(("street", "talk", "pan") * 3)]
    write_video(tmp_path / "in.y4m", concatenate(shots))
    job = PartsJob(Clip.open(tmp_path / "in.y4m"), SETTINGS, 150)
    found = [coded(replace(job, workers=workers), tmp_path / f"{workers}.mkv") for workers in (1, 2, 3)]
    assert len(found[0].parts) > planned(0, len(found[0].parts))  # so the last know what the first took
    streams = [list(encoded.packets()) for encoded in found]
    assert streams[0] == streams[1] == streams[2]
    assert abs(found[0].kbps / 150 - 1) < 0.05


def test_finished_parts_are_taken_over_and_only_those_of_the_same_job(tmp_path: Path, clip: Clip) -> None:
    job, output = PartsJob(clip, SETTINGS, 150, workers=1), tmp_path / "out.mkv"
    first = coded(job, output)
    stream = list(first.packets())
    assert first.found == 0
    stem = first.parts[1].file
    (tmp_path / ".out.mkv.parts" / stem).unlink()
    again = coded(job, output, resume=True)
    assert again.found == 2
    assert list(again.packets()) == stream
    assert coded(replace(job, kbps=100), output, resume=True).found == 0
    assert coded(replace(job, settings=replace(SETTINGS, preset=13)), output, resume=True).found == 0


def test_without_a_bitrate_the_bits_of_the_encoder_alone_are_spent(tmp_path: Path, clip: Clip) -> None:
    encoded = coded(PartsJob(clip, replace(SETTINGS, qp=45, psnr=True), None, workers=1), tmp_path / "out.mkv")
    assert abs(encoded.kbps / encoded.target_kbps - 1) < 0.15
    assert encoded.psnr_y is not None
    assert 20 < encoded.psnr_y < 45


def test_a_policy_that_must_see_the_whole_clip_is_refused(clip: Clip) -> None:
    with pytest.raises(ConfigError, match="crf-replay does not plan by a probe"):
        PartsJob(clip, SETTINGS, 150, "crf-replay")
