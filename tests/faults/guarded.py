"""A program for its own process: encodes frames that end at, or begin after, memory that must not be read."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import sys
from typing import Any

import numpy as np

from reelrl.content.frame import Frame, frame_bytes
from reelrl.encode import EncoderSession
from tests.encode.makers import scene, settings_for

_PROTECT_ALL = 0


def guarded_buffer(size_bytes: int, *, guard_after: bool) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Memory with an unreadable page right behind it, or right before it."""
    page = mmap.PAGESIZE
    pages = -(-size_bytes // page)
    memory = mmap.mmap(-1, (pages + 1) * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    guard = start + pages * page if guard_after else start
    if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(guard), page, _PROTECT_ALL):
        raise OSError(ctypes.get_errno(), "mprotect")
    return np.frombuffer(memory, np.uint8, size_bytes, pages * page - size_bytes if guard_after else page)


def main(text: str) -> None:
    """Do the jobs of a JSON list; each is settings with a size. Prints the number of those that went well."""
    jobs: list[dict[str, Any]] = json.loads(text)
    for number, job in enumerate(jobs):
        encode_guarded(**job)
        sys.stdout.write(f"{number} ")
        sys.stdout.flush()
    os._exit(0)  # the guarded memory cannot be freed in order


def encode_guarded(size: list[int], first_pass: bool = False, **settings: Any) -> None:
    width, height = size
    clip = scene("street", 6, (width, height))
    for guard_after in (True, False):
        frame = Frame(guarded_buffer(frame_bytes(width, height), guard_after=guard_after), width, height)
        with EncoderSession(settings_for(clip, **settings), first_pass=first_pass) as session:
            for source in clip:
                frame.data[:] = source.data
                session.send(frame)
            session.flush()
