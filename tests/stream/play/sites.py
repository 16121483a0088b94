"""A site to play without encoding one, and a player that speaks HTTP only."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from reelrl.stream.data.ladders import Ladder, write_ladder
from reelrl.stream.data.packaging import HLS, MANIFEST, segment_name

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.stream.play.server import PlayServer

KBPS = (160.0, 480.0, 960.0)
CHUNKS = 12


def make_site(folder: Path, chunk_s: float = 1.0) -> Path:
    """Segments of as many bytes as their rates say; nobody decodes them."""
    sizes = np.tile(np.array(KBPS) * 125.0 * chunk_s, (CHUNKS, 1))
    for segment in range(CHUNKS):
        for rung, size in enumerate(sizes[segment]):
            (folder / segment_name(rung, segment)).write_bytes(bytes(int(size)))
    (folder / MANIFEST).write_text("<MPD/>")
    (folder / HLS).write_text("#EXTM3U\n")
    write_ladder(Ladder("made", np.array(KBPS), chunk_s, sizes), folder / "ladder.json")
    return folder


class Answer(NamedTuple):
    status: int
    body: bytes
    headers: dict[str, str]
    took_s: float

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    server: PlayServer,
    path: str,
    document: Any = None,
    *,
    method: str | None = None,
    data: bytes | None = None,
    **headers: str,
) -> Answer:
    """One request on a connection of its own; underscores in names of headers are dashes."""
    if document is not None:
        data = json.dumps(document).encode()
    sent = {key.replace("_", "-"): value for key, value in headers.items()}
    if data is not None:
        sent.setdefault("Content-Type", "application/json")
    request = urllib.request.Request(server.url.rstrip("/") + path, data, sent, method=method)
    began_s = time.monotonic()
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            body = response.read()
            return Answer(response.status, body, dict(response.headers), time.monotonic() - began_s)
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.read(), dict(error.headers), time.monotonic() - began_s)


def begin(server: PlayServer, **wishes: Any) -> dict[str, Any]:
    answer = ask(server, "/api/sessions", wishes)
    assert answer.status == 201, answer.body
    facts: dict[str, Any] = answer.json
    return facts
