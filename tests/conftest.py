"""Fixtures that every part of the tests may use, and how the suite is run: see tests/spread.py and tests/cost.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from tests.canary import MODULE, Canary
from tests.cost import Costs, cpu_s
from tests.spread import group_of, scheduler, slow_first

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

# Workers share the cores: one thread for each, in this process and in those it starts. Before anything imports torch.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
# Ray's clusters stay on 127.0.0.1, which it must be told before anything imports it; other tests' packages do.
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")

# A shell lets what it runs in the background ignore Ctrl+C, and programs inherit that; tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples on every machine, however slow it is; `--hypothesis-profile=default` explores.
hypothesis.settings.register_profile(
    "suite", deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("suite")


# -- order, time and workers -------------------------------------------------------------------------------------

_begun_s = time.monotonic()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--minutes", type=float, default=float("inf"), help="skip what has not begun by then")
    parser.addoption("--turn", type=int, default=0, help="begin with another file at each turn")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.monotonic() - _begun_s > 60 * item.config.getoption("--minutes"):
        pytest.skip("no time was left; it is another turn's")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tests = [(item.nodeid, item.get_closest_marker("slow") is not None) for item in items]
    groups = slow_first(tests, config.getoption("--turn"))
    place = {group: number for number, group in enumerate(groups)}
    items.sort(key=lambda item: place[group_of(item.nodeid)])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return scheduler(config, log)


# -- costs -------------------------------------------------------------------------------------------------------

_costs = Costs()
_last_s = cpu_s()


def pytest_runtest_logstart() -> None:
    global _last_s
    _last_s = cpu_s()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Phases follow each other: what was spent since the last report belongs to this one."""
    global _last_s
    report = yield
    before_s, _last_s = _last_s, cpu_s()
    report.cpu_s = _last_s - before_s  # type: ignore[attr-defined]
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _costs.add(report.nodeid, getattr(report, "cpu_s", 0.0))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if len(_costs.by_test) > 100:
        terminalreporter.section("CPU time")
        for line in _costs.lines():
            terminalreporter.line(line)


# -- fixtures ----------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True, scope="session")
def cache_of_this_worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests neither see nor leave anything in the user's cache, and workers share none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REELRL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def ordinary_priority() -> Iterator[None]:
    """A test that leaves its thread in the real-time class lets all that its worker runs later starve the machine."""
    yield
    left_in = os.sched_getscheduler(0)
    if left_in != os.SCHED_OTHER:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        pytest.fail(f"the test leaves its thread in scheduling class {left_in}; encode inside normal_scheduling()")


@pytest.fixture
def run_root(tmp_path: Path) -> Path:
    """An empty folder for runs."""
    return tmp_path / "runs"


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Canary]:
    """A module on the path, in the working folder, that tells when somebody imports it."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield Canary(tmp_path)
    sys.modules.pop(MODULE, None)


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
