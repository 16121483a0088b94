"""Two sides of a handshake for the tests: real programs in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from reelrl.content.write.video import IvfReader, write_video
from reelrl.encode.minigop.source.in_process import LOW_DELAY
from reelrl.encode.minigop.source.preparation import open_source
from tests.encode.makers import scene

if TYPE_CHECKING:
    from collections.abc import Sequence

ENCODER = [sys.executable, "-m", "reelrl.cli.reel_encoder"]
KBPS = 60.0
FLAGS = ["--bitrate", str(KBPS), "--structure", "low_delay", "--hierarchical-levels", "2", "--preset", "12"]
START_QP = 40
CLIP = scene("street", 20, (64, 64))
MINIGOPS = 5


def clip_file(folder: Path) -> Path:
    path = folder / "street.y4m"
    if not path.exists():
        write_video(path, CLIP)
    return path


def encoder_command(folder: Path, *more: str) -> list[str]:
    """`reel-encoder` on a clip of five mini-GOPs in low delay, into out.ivf; the caller gives the folder."""
    files = ["--input", str(clip_file(folder)), "--o", str(folder / "out.ivf")]
    return [*ENCODER, *files, *FLAGS, "--crf", str(START_QP), "--rl-dir", "{rl_dir}", *more]


def started(command: Sequence[str], rl_dir: Path, **environment: str) -> subprocess.Popen[str]:
    """The command on its own, as if a user had started it in another terminal."""
    words = [word.replace("{rl_dir}", str(rl_dir)) for word in command]
    pipe = subprocess.PIPE
    return subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=os.environ | environment)


def python(code: str, *arguments: object) -> list[str]:
    """The command of a small program."""
    return [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]


def stream_by(deltas: Sequence[int]) -> list[bytes]:
    """The packets that the same decisions give in this process."""
    settings = replace(LOW_DELAY, hierarchical_levels=2, preset=12, keyint=161)
    source = open_source(CLIP, settings, kbps=KBPS, goal="vbr", start_qp=START_QP)
    try:
        for delta in deltas:
            assert source.request() is not None
            source.reply(delta)
        assert source.request() is None
        return [packet.data for packet in source.packets]
    finally:
        source.close()


def packets_of(path: Path) -> list[bytes]:
    return list(IvfReader(path))


def is_alive(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
