"""Fixtures that every part of the tests may use."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# A shell lets what it runs in the background ignore Ctrl+C, and programs inherit that; tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def run_root(tmp_path: Path) -> Path:
    """An empty folder for runs."""
    return tmp_path / "runs"


@pytest.fixture
def small_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A file system of its own, to be filled: of one megabyte, or an indirect parameter's. Only root may mount one."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk; the size-limit tests cover part of this")
    folder = tmp_path / "small"
    folder.mkdir()
    size = f"size={getattr(request, 'param', 1)}m"
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", folder], capture_output=True, text=True)
    if mount.returncode:
        pytest.skip(f"cannot mount a small disk here: {mount.stderr.strip()}")
    try:
        yield folder
    finally:
        # Lazy: a file that a failed test left open must not keep the mount for ever.
        subprocess.run(["umount", "--lazy", folder], check=True)
