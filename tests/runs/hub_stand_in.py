"""A stand-in for the Hugging Face Hub on this machine: the few addresses that pushing and fetching two files ask for.

It has the Hub's layout of addresses and headers, and none of its storage for large files: every file comes inline.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class HubStandIn:
    """Places and their files; `asked` lists every request."""

    def __init__(self) -> None:
        self.places: dict[str, dict[str, bytes]] = {}
        self.private: set[str] = set()
        self.asked: list[str] = []
        self.claimed_size: int | None = None  # what it says of weights, instead of the truth
        self.refuses = False


@contextmanager
def hub_stand_in() -> Iterator[tuple[HubStandIn, str]]:
    """The stand-in and its address."""
    hub = HubStandIn()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(hub: HubStandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            hub.asked.append(f"POST {self.path}")
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if hub.refuses:
                return self._answer(401, {"error": "Invalid credentials"})
            if self.path == "/api/repos/create":
                asked = json.loads(body)
                name = f"{asked['organization']}/{asked['name']}" if asked.get("organization") else asked["name"]
                hub.places.setdefault(name, {})
                if asked.get("private") or asked.get("visibility") == "private":
                    hub.private.add(name)
                return self._answer(200, {"url": f"https://huggingface.co/{name}", "name": name, "id": name})
            if self.path == "/api/validate-yaml":
                return self._answer(200, {"errors": [], "warnings": []})
            _, _, _, user, name, what, _ = self.path.split("/")
            if what == "preupload":
                files = json.loads(body)["files"]
                modes = [{"path": each["path"], "uploadMode": "regular", "shouldIgnore": False} for each in files]
                return self._answer(200, {"files": modes})
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    hub.places[f"{user}/{name}"][line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            address = f"https://huggingface.co/{user}/{name}/commit/{COMMIT}"
            return self._answer(200, {"commitUrl": address, "commitOid": COMMIT, "success": True})

        def do_HEAD(self) -> None:
            self._file(with_body=False)

        def do_GET(self) -> None:
            self._file(with_body=True)

        def _file(self, *, with_body: bool) -> None:
            hub.asked.append(f"{self.command} {self.path}")
            words = self.path.split("?")[0].split("/")
            if len(words) != 6 or words[3] != "resolve":
                return self._answer(404, {})
            _, user, name, _, revision, file = words
            place = hub.places.get(f"{user}/{name}")
            if place is None:
                return self._answer(404, {}, **{"X-Error-Code": "RepoNotFound"})
            if revision not in ("main", COMMIT):
                return self._answer(404, {}, **{"X-Error-Code": "RevisionNotFound"})
            if file not in place:
                return self._answer(404, {}, **{"X-Error-Code": "EntryNotFound"})
            data = place[file]
            self.send_response(200)
            self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            size = len(data) if hub.claimed_size is None else hub.claimed_size
            self.send_header("Content-Length", str(size if not with_body else len(data)))
            self.end_headers()
            if with_body:
                self.wfile.write(data)
            return None

        def _answer(self, status: int, record: dict[str, Any], **headers: str) -> None:
            data = json.dumps(record).encode()
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    return Handler
