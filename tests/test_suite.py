"""The suite itself: tiers that are known to all, workers that get whole groups, costs that are told."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests.cost import BUDGET_S, Costs, cpu_s
from tests.spread import ENGINES, group_of, slow_first

ROOT = Path(__file__).parent.parent
TIERS = re.findall(r'^  "(\w+): tier ', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)


def make(*words: str) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(["make", "-n", *words], cwd=ROOT, env=own, capture_output=True, text=True, check=False)


def test_every_tier_is_explained_and_left_out_of_the_default() -> None:
    assert len(TIERS) >= 5
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for tier in TIERS:
        assert f"| `{tier}` |" in guide
    assert f"not ({' or '.join(TIERS)})" in make("test").stdout
    assert f"not (slow or {' or '.join(TIERS)})" in make("test-fast").stdout


def test_an_unknown_tier_is_refused_with_those_that_exist() -> None:
    asked = make("test-dcos").stdout
    assert f"error  no tier 'dcos' of tests; use one of: {' '.join(TIERS)}" in asked
    assert all(f"-m {tier}" in make(f"test-{tier}").stdout for tier in TIERS)


def test_files_of_engines_form_one_group_and_others_stand_alone() -> None:
    for pattern in ENGINES:
        assert list(ROOT.glob(pattern)), f"{pattern} names no file"
    assert (
        group_of("tests/faults/test_doom.py::test_a") == group_of("tests/act/doom/test_env.py::test_b[2]") == "engines"
    )
    assert group_of("tests/test_suite.py::test_c") == "tests/test_suite.py"


def test_groups_with_many_slow_tests_come_first() -> None:
    tests = [("a.py::1", False), ("b.py::1", True), ("c.py::1", True), ("c.py::2", True), ("a.py::2", False)]
    assert slow_first(tests) == slow_first(tests, turn=3) == ["c.py", "b.py", "a.py"]
    assert slow_first(tests, turn=4) == ["b.py", "a.py", "c.py"]
    assert slow_first([], turn=4) == []


def test_a_test_costs_the_sum_of_its_phases_and_is_told_when_it_is_too_much() -> None:
    costs = Costs()
    for _ in range(3):
        costs.add("a.py::slow", BUDGET_S / 2)
        costs.add("a.py::fast", 0.25)
    whole, first, second = costs.lines()
    assert whole == "    31 s  2 tests; the dearest:"
    assert first == "  30.0 s  a.py::slow  over 20 s: make it smaller, or give it a tier"
    assert second == "   0.8 s  a.py::fast"


def test_a_child_that_was_waited_for_counts() -> None:
    before_s = cpu_s()
    subprocess.run(["python3", "-c", "import time\nwhile time.process_time() < 0.2: pass"], check=True)
    assert cpu_s() - before_s >= 0.15
