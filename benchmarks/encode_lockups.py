"""How often SVT-AV1 locks up on a busy machine, with and without waiting for its threads to rest.

    python benchmarks/encode_lockups.py [--sessions 100]

Short low-delay sessions at preset 12, one after the other, while a process per core does nothing but count. A session
that gives no packet for two seconds has locked up. See docs/decisions/resting-threads.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from reelrl.content import open_clip
from reelrl.encode import EncoderSession, EncoderSettings
from reelrl.encode.codecs.resting_threads import ThreadWatch
from reelrl.errors import EncoderTimeout

FRAMES = 24


def lockups(sessions: int, *, wait: bool) -> int:
    """Sessions out of `sessions` that locked up."""
    if not wait:
        setattr(ThreadWatch, "wait", lambda _watch: None)  # noqa: B010 - mypy guards methods, and rightly so
    clip = open_clip(f"generated:talk?size=352x288&frames={FRAMES}").load()
    settings = EncoderSettings(preset=12, deadline_s=2).for_clip(clip)
    locked = 0
    for _ in range(sessions):
        session = EncoderSession(settings)
        try:
            for frame in clip:
                session.send(frame)
                session.receive()
        except EncoderTimeout:
            locked += 1
        session.close()
    return locked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--only", choices=["wait", "no-wait"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        print(lockups(args.sessions, wait=args.only == "wait"), flush=True)
        os._exit(0)  # threads that are lost inside the library would keep the process
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        for only, what in (("no-wait", "sent at once"), ("wait", "sent to resting threads")):
            command = [sys.executable, __file__, "--only", only, "--sessions", str(args.sessions)]
            found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
            print(f"{what:24} {found} of {args.sessions} sessions of {FRAMES} frames locked up", flush=True)
    finally:
        for process in busy:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
