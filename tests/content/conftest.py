from __future__ import annotations

import io
import os
import subprocess
from typing import TYPE_CHECKING

import av
import pytest

from reelrl.encode.codecs.scheduling import normal_scheduling
from tests.content.makers import smooth_frames

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reelrl.content.frame import Frame


@pytest.fixture(scope="session")
def av1_packets() -> list[bytes]:
    """24 temporal units of a random-access AV1 stream, 64x48: hidden reference frames and all."""
    os.environ.setdefault("SVT_LOG", "1")
    packets: list[bytes] = []
    with av.open(io.BytesIO(), "w", format="ivf") as container:
        stream = container.add_stream("libsvtav1", rate=30, options={"preset": "10", "svtav1-params": "lp=1"})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        with normal_scheduling():
            stream.codec_context.open()
        for frame in smooth_frames(64, 48, 24):
            packets += map(bytes, stream.encode(_picture(frame)))
        packets += map(bytes, stream.encode(None))
    return packets


def _picture(frame: Frame) -> av.VideoFrame:
    return av.VideoFrame.from_ndarray(frame.data.reshape(-1, frame.width), format="yuv420p")


@pytest.fixture
def read_only_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that even root cannot write to."""
    folder = tmp_path / "read-only"
    folder.mkdir()
    if os.geteuid() != 0:
        folder.chmod(0o500)
        yield folder
        folder.chmod(0o700)
        return
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "ro,size=64k", "tmpfs", folder], capture_output=True, text=True
    )
    if mount.returncode:
        pytest.skip(f"cannot mount a read-only folder here: {mount.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)
