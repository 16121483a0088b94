"""How many players one `reel play` answers, and how fast: HTTP as players speak it, the server in its own process.

python benchmarks/play_load.py                                  200 players, a decision a second each, a minute
python benchmarks/play_load.py --players 50 --seconds 10 --controller scalefree

First players that ask once a second, at times of their own; then as many as ask again at once: the most that it gives.
The first row is a server that decides nothing and answers at once: what the machine itself costs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from reelrl.stream.data.ladders import Ladder, nominal_ladder, write_ladder

CHUNKS = 600
NOTHING = "nothing"
CONTROLLERS = (NOTHING, "scalefree", "ppo", "robustmpc", "bola")


def site(folder: Path) -> Path:
    """As much of a site as decisions need."""
    sizes = nominal_ladder(chunks=CHUNKS).video().sizes_bytes * np.random.default_rng(0).uniform(0.8, 1.2, (CHUNKS, 1))
    write_ladder(Ladder("load", nominal_ladder().bitrates_kbps, 4.0, np.round(sizes)), folder / "ladder.json")
    (folder / "manifest.mpd").write_text("<MPD/>")
    return folder


class Client:
    """One player: a connection, a session, and measurements that it makes up."""

    def __init__(self, port: int, seed: int) -> None:
        self.port = port
        self.rng = np.random.default_rng(seed)
        self.segment, self.rung, self.buffer_s = 0, 1, 0.0

    async def begin(self) -> None:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24)
        self.session = (await self.post("/api/sessions", {}))["id"]
        await self.decide()

    async def post(self, path: str, document: Any) -> Any:
        body = json.dumps(document).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Type: application/json\r\n"
        self.writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        size = int(re.search(rb"content-length: (\d+)", answer)[1])  # type: ignore[index]
        text = await self.reader.readexactly(size)
        if answer.split()[1] not in (b"200", b"201"):
            raise RuntimeError(text.decode())
        return json.loads(text)

    async def decide(self) -> float:
        """Ask about the next segment; seconds from question to answer."""
        report: dict[str, Any] = {"segment": self.segment, "buffer_s": self.buffer_s}
        if self.segment:
            kbps = float(self.rng.lognormal(7.5, 0.6))
            size = 37_500.0 * (1 + 2 * self.rung)
            done = {"segment": self.segment - 1, "rung": self.rung, "size_bytes": size, "download_ms": 8 * size / kbps}
            self.buffer_s = min(max(self.buffer_s - done["download_ms"] / 1000, 0.0) + 4.0, 60.0)
            report |= {"buffer_s": self.buffer_s, "downloads": [done]}
        began_s = time.perf_counter()
        answer = await self.post(f"/api/sessions/{self.session}/decide", report)
        took_s = time.perf_counter() - began_s
        self.rung = answer["rung"]
        self.segment = (self.segment + 1) % CHUNKS
        return took_s


async def once_a_second(clients: list[Client], seconds: int) -> list[float]:
    """Latencies of players that each ask once a second."""

    async def player(number: int, client: Client) -> list[float]:
        due_s, took = start_s + number / len(clients), []
        for _ in range(seconds):
            await asyncio.sleep(max(due_s - time.perf_counter(), 0.0))
            took.append(await client.decide())
            due_s += 1.0
        return took

    start_s = time.perf_counter() + 0.1
    return [s for each in await asyncio.gather(*(player(*pair) for pair in enumerate(clients))) for s in each]


async def as_fast_as_possible(clients: list[Client], seconds: float) -> float:
    """Decisions a second when every player asks again at once."""
    until_s = time.perf_counter() + seconds

    async def player(client: Client) -> int:
        count = 0
        while time.perf_counter() < until_s:
            await client.decide()
            count += 1
        return count

    return sum(await asyncio.gather(*(player(client) for client in clients))) / seconds


async def measure(port: int, players: int, seconds: int, process: psutil.Process) -> str:
    clients = [Client(port, seed) for seed in range(players)]
    for client in clients:
        await client.begin()
    await once_a_second(clients, 1)  # compiled and warm
    rss, cpu_s, stolen_s = process.memory_info().rss, sum(process.cpu_times()[:2]), _stolen_s()
    took_ms = 1000 * np.array(await once_a_second(clients, seconds))
    share = (sum(process.cpu_times()[:2]) - cpu_s) / seconds
    stolen = (_stolen_s() - stolen_s) / seconds / (os.cpu_count() or 1)
    p50, p99 = np.percentile(took_ms, [50, 99])
    most = await as_fast_as_possible(clients[:16], 5.0)
    grown = (process.memory_info().rss - rss) / 2**20
    return (
        f"{len(took_ms):6d} decisions   p50 {p50:5.2f}   p99 {p99:6.2f}   max {took_ms.max():6.2f} ms   "
        f"server {100 * share:3.0f} % of a core   most {most:6.0f} /s   memory {grown:+.1f} MB   "
        f"taken from the machine {100 * stolen:2.0f} %"
    )


def _stolen_s() -> float:
    """What a virtual machine's host gave to others; nobody can answer then."""
    return float(getattr(psutil.cpu_times(), "steal", 0.0))


async def serve_nothing() -> None:
    """Answers every question with the lowest rung."""
    body = b'{"id": "0", "rung": 0}'
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(re.search(rb"Content-Length: (\d+)", head)[1]))  # type: ignore[index]
                writer.write(answer)
        writer.close()

    server = await asyncio.start_server(client, "127.0.0.1", 0)
    print(f"open  http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--players", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--controller", nargs="+", default=CONTROLLERS)
    parser.add_argument("--serve-nothing", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve_nothing:
        asyncio.run(serve_nothing())
    print(f"load   {os.getloadavg()[0]:.1f} before   {os.cpu_count()} cores   {args.players} players")
    for name in args.controller:
        with tempfile.TemporaryDirectory() as folder:
            play = ["-u", "-m", "reelrl.cli.main", "play", str(site(Path(folder))), "--port", "0", "--controller", name]
            words = [__file__, "--serve-nothing"] if name == NOTHING else play
            server = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
            assert server.stdout is not None
            try:
                line = next(line for line in server.stdout if line.startswith("open"))
                port = int(line.split(":")[2].split("/")[0])
                shown = asyncio.run(measure(port, args.players, args.seconds, psutil.Process(server.pid)))
                print(f"play   {name:10} {shown}")
            finally:
                server.terminate()
                server.wait()


if __name__ == "__main__":
    main()
