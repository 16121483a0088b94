"""The one connection of this process to a Ray cluster, and the nodes of it that may work for us.

A node is asked for its facts (`machine_facts`) before it gets its first task. One that would give other bytes is left
out, with a warning that says why. Nodes that come later are asked when they come.
"""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import threading
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelrl.errors import ConfigError, WorkerError
from reelrl.parallel.machine_facts import differences, machine_facts
from reelrl.parallel.ray_node import CacheKeeper, facts_of_node, named_cache
from reelrl.storage.files import cache_dir, writable_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

REFRESH_PERIOD_S = 2.0
FACTS_WITHIN_S = 120.0
"""So long a node may take to start a worker and say what it is."""
CONNECT_WITHIN_S = 10.0
NODE_LABEL = "ray.io/node-id"
_LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"

_connection: RayConnection | None = None


def connect(address: str) -> RayConnection:
    """Connect, or take the connection that there is: a process has one."""
    global _connection
    if _connection is None or not _connection.alive:
        _connection = RayConnection(address)
    elif _connection.address != address:
        raise ConfigError(
            f"this process is connected to the Ray cluster {_connection.address!r}, not {address!r}; use one of them"
        )
    return _connection


def disconnect() -> None:
    """Leave the cluster; one that `local` has started ends."""
    global _connection
    connection, _connection = _connection, None
    if connection is not None:
        connection.close()


def stay_on_loopback(address: str) -> None:
    """On Linux Ray takes 127.0.0.1 for the address that other machines see, unless it is told that there are none.

    That has to be before anybody imports it, and torchrl does.
    """
    if _is_loopback(address):
        os.environ.setdefault(_LOOPBACK, "0")


@dataclass
class Node:
    """A node that may work."""

    cpus: int


class RayConnection:
    """A cluster that this process drives. Where the caller has called `ray.init`, that stays the caller's."""

    def __init__(self, address: str) -> None:
        stay_on_loopback(address)
        import ray

        self.address = address
        self._ours = not ray.is_initialized()
        if self._ours:
            if _is_loopback(address):
                _check_imported_in_time()
            _init(address)
        try:
            folder = writable_folder(cache_dir())
            self.cache_id = named_cache(folder)
            self.keeper = (
                ray.remote(CacheKeeper)
                .options(num_cpus=0, label_selector={NODE_LABEL: ray.get_runtime_context().get_node_id()})
                .remote(str(folder))
            )
            self._nodes: dict[str, Node] = {}
            self._asked: dict[str, tuple[Any, float]] = {}  # nodes whose facts are on their way
            self._refused: dict[str, str] = {}
            self._there: set[str] = set()
            self._refreshed_s = -REFRESH_PERIOD_S
        except BaseException:
            self.close()
            raise

    @property
    def alive(self) -> bool:
        import ray

        return bool(ray.is_initialized())

    def close(self) -> None:
        import ray

        if self._ours:
            ray.shutdown()

    def nodes(self) -> dict[str, Node]:
        """Nodes that may work now, by id; waits for the first one."""
        self._refresh_nodes()
        end_s = time.monotonic() + FACTS_WITHIN_S
        while not self._nodes:
            if not self._there - self._refused.keys():
                raise WorkerError(
                    f"no node of the Ray cluster {self.address!r} may work for this command: "
                    f"{'; '.join(self._refused.values()) or 'there is none with a CPU'}. Start the command on a "
                    "machine with the same packages, or start nodes like this one"
                )
            if time.monotonic() > end_s:
                raise WorkerError(
                    f"no node of the Ray cluster {self.address!r} answered within {FACTS_WITHIN_S:.0f} s; "
                    "see whether it is busy with other work: ray status"
                )
            self._take_answers(timeout_s=1.0)
            self._refresh_nodes()
        return self._nodes

    def _refresh_nodes(self) -> None:
        """See which nodes there are, every now and then."""
        import ray

        now_s = time.monotonic()
        if now_s - self._refreshed_s < REFRESH_PERIOD_S:
            return
        self._refreshed_s = now_s
        there = {
            node["NodeID"]: int(node["Resources"].get("CPU", 0))
            for node in ray.nodes()
            if node["Alive"] and node["Resources"].get("CPU", 0) >= 1
        }
        self._there = set(there)
        self._nodes = {name: node for name, node in self._nodes.items() if name in there}
        self._asked = {name: asked for name, asked in self._asked.items() if name in there}
        for name in there.keys() - self._nodes.keys() - self._asked.keys() - self._refused.keys():
            question = ray.remote(facts_of_node).options(num_cpus=0, max_retries=1, label_selector={NODE_LABEL: name})
            self._asked[name] = question.remote(), there[name]
        self._take_answers(timeout_s=0)

    def _take_answers(self, timeout_s: float) -> None:
        """Take in what nodes have answered."""
        import ray

        names = {asked: name for name, (asked, _) in self._asked.items()}
        if not names:
            time.sleep(timeout_s)
            return
        for answered in ray.wait(list(names), num_returns=1, timeout=timeout_s)[0]:
            name = names[answered]
            _, cpus = self._asked.pop(name)
            try:
                refused, labels = differences(machine_facts(), ray.get(answered))
            except ray.exceptions.RayTaskError as error:
                refused, labels = [f"it cannot say what it is: {_last_line(error)}"], []
            except ray.exceptions.RayError:
                continue  # it died, or is not quite there yet: if it lives it is asked again
            for said in labels:
                warnings.warn(f"node {name[:8]} of the cluster: {said}", RuntimeWarning, stacklevel=2)
            if refused:
                self._refused[name] = f"node {name[:8]}: {', '.join(refused)}"
                warnings.warn(
                    f"a node of the cluster gets no work: {self._refused[name]}", RuntimeWarning, stacklevel=2
                )
            else:
                self._nodes[name] = Node(int(cpus))


def _check_imported_in_time() -> None:
    """Where another package imported Ray first, it would wait for ever at this machine's other address."""
    from ray._private import ray_constants

    if os.environ[_LOOPBACK] == "0" and ray_constants.ENABLE_RAY_CLUSTER:
        raise ConfigError(
            f"Ray was imported before {_LOOPBACK}=0 told it to stay on 127.0.0.1; set that before Python starts"
        )


def _init(address: str) -> None:
    import ray

    # Ray would set the accelerators of workers that ask for none to none, and says so in a warning of four lines.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "namespace": "reelrl"}
    if address == "local":
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        options |= {"include_dashboard": False}
    with _handlers_stay():
        try:
            _knock(address)
            ray.init(address=address, **options)
        except (OSError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"cannot connect to a Ray cluster at {address!r}: {_last_line(error)}; start one with "
                "`ray start --head --node-ip-address 127.0.0.1`, give its address, or use --ray local"
            ) from error


def _is_loopback(address: str) -> bool:
    """Whether the cluster is on this machine and seen by nobody else. Who reaches a port of Ray's runs code there."""
    return address == "local" or _host_and_port(address)[0] in ("127.0.0.1", "localhost", "[::1]")


def _knock(address: str) -> None:
    """Raise OSError where nobody listens: Ray would try again for minutes."""
    host, port = _host_and_port(address)
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_WITHIN_S).close()


def _host_and_port(address: str) -> tuple[str, str]:
    """Empty for a cluster of this machine's own, and where "auto" finds none."""
    if address == "auto":
        noted = Path(tempfile.gettempdir()) / "ray" / "ray_current_cluster"  # as `ray start` leaves it
        address = os.environ.get("RAY_ADDRESS") or (noted.read_text() if noted.is_file() else "")
    host, _, port = address.strip().removeprefix("ray://").rpartition(":")
    return host, port


@contextmanager
def _handlers_stay() -> Iterator[None]:
    """Ray takes SIGTERM for itself; the command line has its own way to end in good order."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _last_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[-1].strip() if lines else type(error).__name__
