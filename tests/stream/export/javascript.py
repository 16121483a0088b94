"""Runs an ES module: in node where it is there, else in a headless Chromium."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser import PROGRAM, Chromium

if TYPE_CHECKING:
    from pathlib import Path

NODE = shutil.which("node")


def run_module(module: str, code: str, given: Any, folder: Path) -> Any:
    """What the body of a function of `policy` (the module) and `given` returns."""
    if NODE:
        (folder / "policy.mjs").write_text(module, encoding="utf-8")
        (folder / "given.json").write_text(json.dumps(given), encoding="utf-8")
        script = (
            "import * as policy from './policy.mjs'; import fs from 'node:fs';"
            "const given = JSON.parse(fs.readFileSync('given.json'));"
            f"console.log(JSON.stringify((() => {{ {code} }})()));"
        )
        (folder / "main.mjs").write_text(script, encoding="utf-8")
        done = subprocess.run([NODE, "main.mjs"], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
    if not PROGRAM:
        pytest.skip("neither node nor Chromium is here to run JavaScript; install one: apt-get install -y chromium")
    address = "data:text/javascript;base64," + base64.b64encode(module.encode()).decode()
    with Chromium() as browser:
        browser.evaluate(f"window.given = {json.dumps(given)}; 0")
        browser.evaluate(
            f"import({json.dumps(address)}).then(policy => {{ const given = window.given;"
            f"window.found = (() => {{ {code} }})(); }}); 0"
        )
        browser.wait_for("window.found !== undefined")
        return browser.evaluate("window.found")
