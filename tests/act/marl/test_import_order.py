"""BenchMARL can be imported after reelrl, which imports nothing heavy for that."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.long
def test_benchmarl_is_imported_after_reelrl() -> None:
    code = "import reelrl.act, sys; assert 'torch' not in sys.modules; import benchmarl.algorithms"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-500:]
