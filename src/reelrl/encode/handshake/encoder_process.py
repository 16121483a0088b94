"""A foreign encoder's process: started without a shell, watched, and never left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING

from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_GRACE_S = 2.0
_PR_SET_PDEATHSIG = 1

# A trainer that is killed cannot end its encoder: the kernel is asked to, by the encoder's own process before it
# becomes the encoder (`preexec_fn` would do the same, but may lock up where there are threads).
_LAUNCH = f"""
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, signal.SIGKILL)
if os.getppid() == int(sys.argv[1]):
    os.execvp(sys.argv[2], sys.argv[2:])
"""


class EncoderProcess:
    """A command that runs with `RL_DIR` and more in its environment; `{rl_dir}` in its arguments is the folder.

    It lives no longer than the thread that started it.
    """

    def __init__(self, command: Sequence[str], rl_dir: Path, environment: Mapping[str, str]) -> None:
        if not command:
            raise ConfigError("the encoder's command is empty; name a program, such as reel-encoder")
        program, *arguments = (word.replace("{rl_dir}", str(rl_dir)) for word in command)
        if shutil.which(program) is None:
            raise ConfigError(f"there is no program {program!r} to run as encoder; give its path, or correct PATH")
        self.program = program
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid()), program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._words,
            stderr=self._words,
            env={**os.environ, "RL_DIR": str(rl_dir), **environment},
            start_new_session=True,  # Ctrl+C is the trainer's to handle; helpers of the encoder end with it
        )

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def ended(self) -> bool:
        return self._child.poll() is not None

    @property
    def ended_well(self) -> bool:
        return self._child.poll() == 0

    def wait(self, seconds: float) -> bool:
        """Whether the process ended by itself in that time."""
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(seconds)
        return self.ended

    def how_it_ended(self) -> str:
        code = self._child.poll()
        if code is None:
            return "is still running"
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"

    def last_words(self, limit: int = 2000) -> str:
        """The end of what it printed."""
        size = self._words.seek(0, os.SEEK_END)
        self._words.seek(max(0, size - limit))
        return self._words.read().decode("utf-8", "replace").strip()

    def close(self) -> None:
        """End it, and what it started, if it has not ended by itself."""
        if self._words.closed:
            return
        try:
            for ending in (signal.SIGTERM, signal.SIGKILL):
                with suppress(ProcessLookupError):
                    os.killpg(self.pid, ending)
                if self.wait(_GRACE_S):
                    break
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        finally:
            self._words.close()
