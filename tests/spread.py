"""How the tests are spread over worker processes (`pytest -n N`): a file stays together, and engines do not meet.

A file shares what its fixtures made. Files that start game engines, or that judge encoders by deadlines, form one group
and run one after another on one worker. What has slow tests comes first, so that no worker is left alone at the end.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

ENGINES = (
    "tests/act/doom/test_*.py",
    "tests/act/marl/test_*.py",
    "tests/act/video/test_*.py",
    "tests/act/recording/*.py",
    "tests/cli/doom/test_*.py",
    "tests/cli/compare/test_doom.py",
    "tests/cli/train/test_interrupts.py",
    "tests/faults/test_doom.py",
    "tests/test_documentation.py",
    "tests/faults/test_encoder_hangs.py",
    "tests/encode/codecs/test_concurrency.py",
)


def group_of(nodeid: str) -> str:
    """The group that a test runs with: the engines', or its own file."""
    path = nodeid.partition("::")[0]
    # Two clusters that start in the same instant on one machine take each other's ports.
    if fnmatchcase(path, "tests/parallel/test_*cluster.py"):
        return "clusters"
    return "engines" if any(fnmatchcase(path, pattern) for pattern in ENGINES) else path


def slow_first(tests: Iterable[tuple[str, bool]], turn: int = 0) -> list[str]:
    """Groups by how many slow tests they have, most first; `tests` are (node id, whether it is slow).

    Another `turn` begins with another group: a run whose time is limited comes to all of them in the end.
    """
    slow: dict[str, int] = {}
    for nodeid, is_slow in tests:
        group = group_of(nodeid)
        slow[group] = slow.get(group, 0) + is_slow
    groups = sorted(slow, key=lambda group: -slow[group])
    begin = turn % max(len(groups), 1)
    return groups[begin:] + groups[:begin]


def scheduler(config: Any, log: Any) -> Any:
    """What hands whole groups to workers, in the order in which they were collected."""
    from xdist.scheduler import LoadScopeScheduling  # only where there are workers

    class ByGroup(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    config.option.loadscopereorder = False
    return ByGroup(config, log)
