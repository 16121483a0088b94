"""The folder in which finished parts of an encode wait: removed when all is written, named after an interrupt."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from reelrl.cli import output
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from reelrl.encode.parts.folder import PartsFolder


@contextmanager
def finished_parts(args: argparse.Namespace) -> Iterator[PartsFolder]:
    """The folder beside `args.output`; inside, parts are coded and the output is written."""
    from reelrl.encode.parts.folder import PartsFolder

    if (args.workers or 0) < 0:
        raise ConfigError(f"--workers {args.workers}; use 1 or more, or 0 for one per core")
    with PartsFolder(args.output, resume=args.resume) as folder:
        try:
            yield folder
        except KeyboardInterrupt:
            if folder.finished:
                output.note("saved", folder.path, f"{folder.finished} finished parts", "go on with --resume")
            raise
        folder.remove()
