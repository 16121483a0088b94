"""A Ray cluster of two nodes for tests; a test file that imports `nodes` and `driver` has one of its own.

The second node has a cache of its own, as a machine without a shared disk has.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reelrl.parallel import WorkPlace, executor, working_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reelrl.parallel import Executor

# Before Ray is imported: this machine alone.
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")

STORE_BYTES = 80 << 20
ROOT = Path(__file__).parents[2]


class TwoNodes:
    """A cluster on this machine: the driver's node, and one with a cache of its own that can be killed."""

    def __init__(self, folder: Path) -> None:
        from ray.cluster_utils import Cluster

        self.folder = folder
        self.cluster = Cluster(initialize_head=True, head_node_args=self._node())
        self.second: Any = None
        self.add_second()

    @staticmethod
    def _node(**more: Any) -> dict[str, Any]:
        return {
            "num_cpus": 1,
            "object_store_memory": STORE_BYTES,
            "node_ip_address": "127.0.0.1",
            "include_dashboard": False,
            **more,
        }

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def add_second(self, **environment: str) -> None:
        environment.setdefault("REELRL_CACHE", str(self.folder / "second"))
        self.second = self.cluster.add_node(**self._node(env_vars=environment))

    def kill_second(self) -> None:
        self.cluster.remove_node(self.second, allow_graceful=False)
        self.second = None

    @contextmanager
    def work(self, deadline_s: float | None = None, jobs: int = 0) -> Iterator[Executor]:
        with working_at(WorkPlace(self.address, deadline_s)), executor(jobs) as work:
            yield work


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoNodes]:
    folder = tmp_path_factory.mktemp("cluster")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REELRL_CACHE", str(folder / "first"))
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        made = TwoNodes(folder)
        yield made
        made.cluster.shutdown()


@pytest.fixture(autouse=True)
def driver(nodes: TwoNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REELRL_CACHE", str(nodes.folder / "first"))
    if nodes.second is None:
        nodes.add_second()
