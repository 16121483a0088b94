"""The scripts of `reel completion`, read by the shells that they are for."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from reelrl.cli.completion import SHELLS, script
from reelrl.cli.main import COMMANDS


def offered(*words: str) -> set[str]:
    """What bash offers for the last of the words."""
    typed = " ".join(f"'{word}'" for word in words)
    asked = f"COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _reel; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    code = f"{script('bash')}\n{asked}"
    done = subprocess.run(["bash", "--norc", "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash_offers_commands_options_and_choices() -> None:
    assert offered("reel", "") == {name.split()[0] for name in COMMANDS}
    assert offered("reel", "tr") == {"traces", "train"}
    assert offered("reel", "train", "") == {name.split()[1] for name in COMMANDS if name.startswith("train ")}
    assert "--resume" in offered("reel", "train", "abr", "--")
    assert offered("reel", "runs", "clean", "--y") == {"--yes"}
    assert offered("reel", "runs", "--j") == {"--json"}
    assert offered("reel", "traces", "x", "--format", "") == {"json", "cooked", "mahimahi"}
    assert offered("reel", "encode", "film.mkv") == set()  # files are the shell's own to offer


@pytest.mark.parametrize("shell", SHELLS)
def test_every_script_names_every_command(shell: str) -> None:
    assert all(name.split()[-1] in script(shell) for name in COMMANDS)


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shutil.which(shell)])
def test_a_shell_that_is_there_can_read_its_script(shell: str) -> None:
    done = subprocess.run([shell, "-n"], input=script(shell), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
