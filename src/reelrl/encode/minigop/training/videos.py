"""What mini-GOP training codes: clips of ours, or an encoder's own arguments with bars between them.

    --input|in.yuv|--input-res|1920x1080|--frames|0|--o|out.ivf|--csv|out.csv|--bitrate|2125|--stat-in|p1.log|--fps|24

A foreign encoder gets the words as they are. In this process they mean what they mean to `reel-encoder`; `--frames 0`
takes all, sizes of raw files come from the flags or the name, and a log of a first pass that is missing is made.
"""

from __future__ import annotations

import glob
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reelrl.content.clip import Clip
from reelrl.content.sources import open_clip, parse_rate, parse_size
from reelrl.encode.file.job import EncodeJob
from reelrl.encode.handshake.pass_log import PassLog
from reelrl.encode.handshake.reference_encoder import first_pass
from reelrl.errors import ConfigError, ContentError, EncoderError
from reelrl.storage.files import writable_folder

if TYPE_CHECKING:
    from reelrl.encode.codecs.settings import EncoderSettings

# Flags that a first pass needs as well; the others say what to write or how to steer.
_FIRST_PASS = ("--input", "--input-res", "--frames", "--fps", "--preset", "--bitrate", "--rc-mode")
_FIRST_PASS_S = 3600.0


@dataclass(frozen=True)
class TrainingVideo:
    """One thing to code. `options` are an encoder's own flags and their values, in order; empty for a clip by name."""

    name: str
    options: dict[str, str]

    @property
    def kbps(self) -> float | None:
        """The bitrate that the options ask for."""
        return None if "--bitrate" not in self.options else _number("--bitrate", self.options["--bitrate"])

    @property
    def words(self) -> list[str]:
        """The options as a command line."""
        return [word for pair in self.options.items() for word in pair]

    def open(self, frames: int = 0) -> Clip:
        """The pictures; `frames` where the options do not say how many, 0 for all."""
        if not self.options:
            clip = open_clip(self.name)
        else:
            size = parse_size("--input-res", self.options["--input-res"]) if "--input-res" in self.options else None
            fps = parse_rate("--fps", self.options["--fps"]) if "--fps" in self.options else None
            clip = Clip.open(self.options["--input"], size, fps)
            frames = round(_number("--frames", self.options["--frames"])) if "--frames" in self.options else frames
        return clip.window(0, frames) if 0 < frames < clip.frame_count else clip

    def start_qp(self, clip: Clip, settings: EncoderSettings, kbps: float) -> int | None:
        """Where the first pass in the log stood; made if the log is missing, None if none is named."""
        log = self.options.get("--stat-in")
        if log is None:
            return None
        if not Path(log).exists():
            writable_folder(Path(log).parent)
            first_pass(EncodeJob(clip, settings, kbps)).log.save(log)
        return PassLog.load(log, clip).qp

    def make_log(self, encoder: str) -> None:
        """Have a foreign encoder make the log of its first pass, if one is named and missing."""
        log = self.options.get("--stat-in")
        if log is None or Path(log).exists():
            return
        writable_folder(Path(log).parent)
        chosen = [word for flag, value in self.options.items() if flag in _FIRST_PASS for word in (flag, value)]
        command = [encoder, *chosen, "--pass", "1", "--stat-out", log]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_FIRST_PASS_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EncoderError(f"the first pass could not be made: {error}; make {log} yourself") from error
        if done.returncode or not Path(log).exists():
            words = (done.stderr or done.stdout).strip()[-2000:]
            raise EncoderError(
                f"the first pass of {self.name} left no {log} (exit code {done.returncode}); make it yourself", words
            )


def parse_video(text: str) -> TrainingVideo:
    """The video that "--input|in.yuv|--o|out.ivf" means."""
    words = [word.strip() for word in text.split("|")]
    pairs = list(zip(words[::2], words[1::2], strict=False))
    wrong = next((flag for flag, _ in pairs if not flag.startswith("--")), None)
    if len(words) % 2 or wrong is not None:
        fault = f"{wrong!r} stands where a flag should" if wrong else f"{words[-1]!r} has no value"
        raise ConfigError(f"--videos: {fault}; write flags and values in turn, --input|in.yuv|--bitrate|500")
    options = {flag.replace("_", "-"): value for flag, value in pairs}
    if "--input" not in options:
        raise ConfigError(f"--videos {text!r} has no --input; name the file to code")
    return TrainingVideo(Path(options["--input"]).stem, options)


def data_set(pattern: str, stat_dir: str | None, out_dir: str | None) -> tuple[str, ...]:
    """The videos that match a pattern, as their options; logs and streams are named by their stems."""
    paths = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 - people give whole patterns, also absolute ones
    if not paths:
        raise ContentError(f"--dataset-inputs {pattern!r} matches no file; quote the pattern, check the folder")
    texts = []
    for path in map(Path, paths):
        words = ["--input", str(path)]
        if out_dir:
            folder = writable_folder(out_dir)
            words += ["--o", str(folder / f"{path.stem}.ivf"), "--csv", str(folder / f"{path.stem}.csv")]
        if stat_dir:
            words += ["--stat-in", str(_log_of(path, Path(stat_dir)))]
        texts.append("|".join(words))
    return tuple(texts)


def _log_of(path: Path, folder: Path) -> Path:
    """The first-pass log of a video: a file of its stem, whatever the ending; else where it will be made."""
    logs = sorted(folder.glob(f"{glob.escape(path.stem)}.*"))
    return logs[0] if logs else folder / f"{path.stem}.log"


def _number(flag: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{flag} is {text!r}; give a number") from None
