"""What pages take for granted: files that are there before their code runs, and lines that come before its blocks."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from reelrl.cli.main import main
from reelrl.content.sources import open_clip
from reelrl.content.write.video import write_video
from tests.test_examples import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# Warnings are errors in pages; those of other people's packages are theirs.
OTHERS_MAY_WARN = "import warnings\nwarnings.simplefilter('ignore')"
CLIP = "generated:street?size=64x64&frames=18"


def superblock_run(folder: Path) -> list[str]:
    """A policy in runs/0007 and another clip."""
    clip = "generated:street?size=64x64&frames=4"
    short = ("--total-iteration", "1", "--eval-freq", "100", "--set", "learner.hidden=[8]")
    assert main(["train", "superblock", "--file", clip, *short, "--output-dir", str(folder / "runs")]) == 0
    next((folder / "runs").iterdir()).rename(folder / "runs" / "0007-superblock-ppo")
    assert main(["clips", "make", clip, "-o", str(folder / "other.y4m")]) == 0
    return []


def run_that_names_code(folder: Path) -> list[str]:
    """A policy in runs/0007 that corrects a controller of somebody's own."""
    (folder / "my_pkg").mkdir()
    (folder / "my_pkg" / "__init__.py").touch()
    (folder / "my_pkg" / "mine.py").write_text("from reelrl.encode.minigop.controllers.rules import RateModel as Mine")
    short = [word for key in ("preset=12", "sac.starts=1", "sac.hidden=[8]", "qps=[40,44]") for word in ("--set", key)]
    mine = ("--base", "my_pkg.mine:Mine", "--clip", CLIP, "--epochs", "1", "--output-dir", "runs")
    run(folder, "-m", "reelrl.cli.main", "train", "minigop", *mine, *short)
    next((folder / "runs").iterdir()).rename(folder / "runs" / "0007-minigop-sac")
    return []


def traces_and_videos(folder: Path) -> list[str]:
    """Some traces, a ladder, and a video with Pensieve's files of sizes."""
    assert main(["traces", "make", "mobile", "--count", "3", "-o", str(folder / "traces")]) == 0
    rates = [300, 750, 1200, 1850, 2850, 4300]
    (folder / "ladder.json").write_text(json.dumps({"bitrates_kbps": rates, "chunk_s": 4, "chunks": 48}))
    (folder / "video").mkdir()
    for rung, kbps in enumerate(rates):
        (folder / "video" / f"video_size_{rung}").write_text(f"{kbps * 500}\n" * 49)
    return [OTHERS_MAY_WARN]


def recordings(folder: Path) -> list[str]:
    """A match of four in the haunted rooms, and a tree in the layout of X-Ego."""
    from tests.act.recording.recorded import collect
    from tests.act.recording.test_xego import write_tree

    collect(folder / "data" / "doom", players=4, seconds=12.0, video="av1")
    write_tree(folder / "data" / "x-ego")
    return []


def encoder_beside(folder: Path) -> list[str]:
    """`reel-encoder` is at work in rl_io; in the second block a trainer is, and there is one mini-GOP to ask about."""
    (folder / "rl_io").mkdir()
    write_video(folder / "in_64x64_24.yuv", open_clip(CLIP))
    encoder = [sys.executable, "-m", "reelrl.cli.reel_encoder", "--input", "in_64x64_24.yuv", "--o", "out.ivf"]
    encoder += ["--bitrate", "90", "--rc-mode", "1", "--preset", "12", "--rl-dir", "rl_io"]
    ask = (
        "import threading\n"
        "from reelrl.encode.minigop.protocols import MiniGopFeedback, MiniGopRequest\n"
        "def steer():\n"
        "    run_controller(HandshakeSource('rl_io'), load_minigop_controller('crf-replay(2)'))\n"
        "beside = threading.Thread(target=steer)\n"
        "beside.start()\n"
        "request = MiniGopRequest(0, 0, 0, 4, 40, (44, 42, 44, 36), 9000, 4, {})\n"
        "feedback = MiniGopFeedback(0, 42, 9000, 37.9, True, 4)\n"
    )
    ended = "assert encoder.wait() == 0\nassert qp == 42\nbeside.join()\n"
    return [f"import subprocess\nencoder = subprocess.Popen({encoder!r})", ask, ended]


def drawn_matches(folder: Path) -> list[str]:
    """Two matches that no engine played."""
    from tests.act.location.written_matches import write_matches

    write_matches(folder / "data" / "doom", 2, rows=10, players=2)
    return []


def doom_files(folder: Path) -> list[str]:
    """The files of a training as they ship."""
    assert main(["init", "doom", str(folder)]) == 0
    return [OTHERS_MAY_WARN, "", "env.close()", "experiment.close()"]


def some_frames(_: Path) -> list[str]:
    return ["import numpy as np\nframes = np.zeros((3, 48, 64, 3), np.uint8)"]


GIVEN: dict[str, Callable[[Path], list[str]]] = {
    "docs/explanation/decisions/files-run-no-code.md": run_that_names_code,
    "docs/how-to/control-bitrate.md": traces_and_videos,
    "docs/how-to/record-matches.md": recordings,
    "docs/how-to/steer-your-own-encoder.md": encoder_beside,
    "docs/how-to/pretrain-views.md": drawn_matches,
    "docs/how-to/train-a-doom-team.md": doom_files,
    "docs/how-to/train-superblock.md": superblock_run,
    "docs/how-to/train-an-autoencoder.md": lambda _: [
        "import numpy as np\nframes = np.zeros((3, 48, 64, 3), np.uint8)"
    ],
}
