"""One word, one idea: no class of ours shares its name with another."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import reelrl

ROOT = Path(reelrl.__file__).parent


def test_no_class_name_means_two_things() -> None:
    homes = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(str(path.relative_to(ROOT)))
    twice = {name: places for name, places in homes.items() if len(places) > 1}
    assert not twice, f"choose names that tell these apart: {twice}"
