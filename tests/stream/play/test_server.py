"""The server answers players, refuses everything else with a reason, and holds nothing for those who abuse it."""

from __future__ import annotations

import gc
import json
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.error import URLError

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reelrl.errors import ConfigError
from reelrl.stream.controllers.heuristics import Bola, Fixed, RateBased
from reelrl.stream.controllers.oracle import Oracle
from reelrl.stream.data.packaging import segment_name
from reelrl.stream.data.traces import Trace
from reelrl.stream.play import guard, service, sessions
from reelrl.stream.play.server import PlayServer
from reelrl.stream.play.service import Show
from tests.stream.play.sites import CHUNKS, KBPS, ask, begin, make_site
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

SLOW = Trace.from_slots("slow", [1000], [80], [0])
DOWNLOAD = {"segment": 0, "rung": 1, "size_bytes": 60_000, "download_ms": 800.0}
REPORT = {"segment": 1, "buffer_s": 1.0, "downloads": [DOWNLOAD]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.txt").write_text("secret")
    site = outside / "site"
    site.mkdir()
    (site / "link.txt").symlink_to(outside / "secret.txt")
    return make_site(site)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[PlayServer]:
    show = Show(folder=folder, controllers={"bola": Bola(), "rate": RateBased(), "dashjs": None}, traces=(SLOW,))
    with PlayServer(show, 0) as running:
        yield running


def raw(server: PlayServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=30)


def get(server: PlayServer, path: str, *headers: str) -> bytes:
    """A request as it goes over the wire, its path as it stands."""
    return "\r\n".join([f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{server.port}", *headers, "", ""]).encode()


def test_a_viewing_from_setup_to_its_end(server: PlayServer) -> None:
    setup = ask(server, "/api/setup").json
    assert (setup["controllers"], setup["decisions"]) == (["bola", "rate", "dashjs"], "service")
    assert setup["ladder"] == {"bitrates_kbps": list(KBPS), "chunk_s": 1.0, "chunks": CHUNKS}
    facts = begin(server, controller="rate", qoe="log", buffer_cap_s=20.0)
    assert (facts["controller"], facts["buffer_cap_s"], facts["qoe"]["stall_penalty"]) == ("rate", 20.0, 2.66)
    assert facts["sizes_bytes"][3][1] == 60_000
    place = f"/api/sessions/{facts['id']}"
    first = ask(server, place + "/decide", {"segment": 0, "buffer_s": 0})
    assert (first.status, first.json["rung"], first.json["decided_by"]) == (200, 1, "start")
    second = ask(server, place + "/decide", REPORT).json
    assert (second["rung"], second["representation"], second["decided_by"]) == (1, "1", "controller")
    assert second["reason"]["throughput_kbps"] == pytest.approx(600.0)
    assert ask(server, place, method="DELETE").status == 204
    assert ask(server, place + "/decide", REPORT).status == 404


def test_who_decides_is_said(server: PlayServer) -> None:
    for name, decides in (("bola", "service"), ("dashjs", "player"), ("page", "page")):
        facts = begin(server, controller=name)
        assert facts["decisions"] == decides
        asked = ask(server, f"/api/sessions/{facts['id']}/decide", REPORT)
        assert asked.status == (200 if decides == "service" else 409)


def test_a_player_of_another_video_brings_its_ladder(server: PlayServer) -> None:
    facts = begin(server, ladder={"bitrates_kbps": [100, 200], "chunk_s": 2, "chunks": 3})
    assert (facts["chunks"], facts["media"], facts["trace"]) == (3, None, None)
    assert ask(server, f"/media/{facts['id']}/manifest.mpd").status == 404
    huge = {"bitrates_kbps": list(range(100, 164)), "chunk_s": 2, "chunks": 100_000}
    assert ask(server, "/api/sessions", {"ladder": huge}).status == 400


def test_files_have_their_types_ranges_and_heads(server: PlayServer, folder: Path) -> None:
    for name, kind in (("manifest.mpd", "application/dash+xml"), ("master.m3u8", "application/vnd.apple.mpegurl")):
        assert ask(server, f"/site/{name}").headers["content-type"] == kind
    part = ask(server, "/site/" + segment_name(0, 0), Range="bytes=100-199")
    assert (part.status, len(part.body), part.headers["content-range"]) == (206, 100, "bytes 100-199/20000")
    assert ask(server, "/site/" + segment_name(0, 0), Range="bytes=99999-").status == 416
    head = ask(server, "/site/" + segment_name(0, 0), method="HEAD")
    assert (head.body, head.headers["content-length"]) == (b"", "20000")
    media = begin(server)["media"]
    assert ask(server, media + segment_name(0, 0), Range="bytes=0-99").body == bytes(100)


OUTSIDE = [
    "../secret.txt",
    "%2e%2e/secret.txt",
    "..%2fsecret.txt",
    "....//secret.txt",
    "/etc/passwd",
    "%00",
    "link.txt",
]


@pytest.mark.parametrize("path", [*OUTSIDE, "a" * 5000], ids=[*OUTSIDE, "long"])
def test_nothing_outside_the_site_is_served(server: PlayServer, path: str) -> None:
    media = begin(server)["media"]
    for place in ("/site/", media, "/page/", "/"):
        with raw(server) as client:
            client.sendall(get(server, place + path, "Connection: close"))
            answer = b"".join(iter(lambda: client.recv(65536), b""))
        assert 400 <= int(answer.split()[1]) < 500, (place, answer[:200])
        assert answer.partition(b"\r\n\r\n")[2] != b"secret"


WRONG: dict[str, tuple[bytes, int]] = {
    "no json": (b"{", 400),
    "nothing": (b"", 400),
    "not utf-8": (b"\xff\xfe{", 400),
    "a list": (b"[]", 400),
    "NaN": (b'{"segment": 1, "buffer_s": NaN}', 400),
    "infinity": (b'{"segment": 1, "buffer_s": 1e999}', 400),
    "negative": (b'{"segment": 1, "buffer_s": -1}', 400),
    "text": (b'{"segment": 1, "buffer_s": "1"}', 400),
    "true": (b'{"segment": true, "buffer_s": 1}', 400),
    "no segment": (b'{"buffer_s": 1}', 400),
    "segment beyond": (b'{"segment": 12, "buffer_s": 1}', 400),
    "unknown key": (b'{"segment": 1, "buffer_s": 1, "bufer": 1}', 400),
    "deep": (b"[" * 60_000, 400),
    "many digits": (b'{"segment": 1, "buffer_s": ' + b"9" * 5000 + b"}", 400),
    "long": (b'{"segment": 1, "buffer_s": 1, "x": "' + b"a" * 70_000 + b'"}', 413),
    "huge": (b" " * 20_000_000, 413),
    "many downloads": (json.dumps(REPORT | {"downloads": [DOWNLOAD] * 65}).encode(), 400),
    "no bytes": (json.dumps(REPORT | {"downloads": [DOWNLOAD | {"size_bytes": 0}]}).encode(), 400),
    "no time": (json.dumps(REPORT | {"downloads": [DOWNLOAD | {"download_ms": 0}]}).encode(), 400),
    "rung beyond": (json.dumps(REPORT | {"downloads": [DOWNLOAD | {"rung": 3}]}).encode(), 400),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_reports_are_refused_with_a_reason_and_change_nothing(server: PlayServer, name: str) -> None:
    data, status = WRONG[name]
    place = f"/api/sessions/{begin(server)['id']}/decide"
    before = ask(server, place, REPORT).json
    refused = None
    with suppress(ConnectionError, URLError):  # a server may close on those who go on sending
        refused = ask(server, place, data=data)
    assert refused is not None or status == 413
    if refused is not None:
        assert refused.status == status
        assert len(refused.json["error"]) > 10
    again = ask(server, place, {"segment": 1, "buffer_s": 1.0}).json
    assert (again["rung"], again["repeated"]) == (before["rung"], True)


KEYS = [*REPORT, *DOWNLOAD]
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=12,
)
WISHES = ["controller", "qoe", "seed", "ladder", "trace", "x"]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.sampled_from([*REPORT, "controller", "qoe", "seed", "ladder", "trace", "x"]), ANY, max_size=6)
)
def test_no_json_is_a_server_error(server: PlayServer, document: dict[str, Any]) -> None:
    known = begin(server)["id"]
    for path in ("/api/sessions", f"/api/sessions/{known}/decide"):
        assert ask(server, path, document).status in (200, 201, 400)


def test_foreign_hosts_pages_and_kinds_of_requests_are_refused(server: PlayServer) -> None:
    own = f"http://127.0.0.1:{server.port}"
    assert ask(server, "/api/setup", Host="evil.example").status == 421
    assert ask(server, "/api/setup", Host=f"evil.example:{server.port}").status == 421
    assert ask(server, "/api/setup", Host=f"localhost:{server.port}").status == 200
    assert ask(server, "/api/setup", Origin="http://evil.example").status == 403
    assert ask(server, "/api/setup", Origin="null").status == 403
    assert ask(server, "/api/setup", Origin=own).status == 200
    # What a foreign page could send without a preflight, and the preflight itself.
    assert ask(server, "/api/sessions", {}, Content_Type="text/plain").status == 415
    preflight = ask(server, "/api/sessions", method="OPTIONS", Origin="http://evil.example")
    assert preflight.status == 403
    assert "access-control-allow-origin" not in {key.lower() for key in preflight.headers}
    assert ask(server, "/api/setup").headers["cross-origin-resource-policy"] == "same-origin"
    assert ask(server, "/api/setup", method="POST", data=b"{}").status == 405


def test_it_listens_at_this_machine_alone_and_refuses_what_cannot_work(folder: Path) -> None:
    show = Show(folder=folder, controllers={"bola": Bola()})
    with PlayServer(show, 0) as running:
        (listening,) = [
            each.laddr.ip
            for each in psutil.Process().net_connections("tcp")
            if each.status == psutil.CONN_LISTEN and each.laddr.port == running.port
        ]
        assert listening == "127.0.0.1"
    for address in ("0.0.0.0", "::", "somewhere"):
        with pytest.raises(ConfigError, match="is not one address"):
            PlayServer(show, 0, address)
    with pytest.raises(ConfigError, match="the ladder has 3"):
        PlayServer(Show(folder=folder, controllers={"lowest(7)": Fixed(7)}), 0)
    with pytest.raises(ConfigError, match="needs the future"):
        Show(folder=folder, controllers={"oracle": Oracle()})


def test_clients_that_ask_slowly_or_do_not_read_are_let_go(server: PlayServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "ASKING_S", 0.3)
    monkeypatch.setattr(guard, "READING_S", 0.3)
    monkeypatch.setattr(service, "ASKING_S", 0.3)
    host = f"Host: 127.0.0.1:{server.port}\r\n"
    with raw(server) as silent, raw(server) as half:
        half.sendall(b"GET / HTTP/1.1\r\nHos")
        assert _ended(silent)
        assert _ended(half)
    place = f"/api/sessions/{begin(server)['id']}/decide"
    with raw(server) as client:
        head = f"POST {place} HTTP/1.1\r\n{host}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
        client.sendall(head.encode() + b"{")
        assert client.recv(4096).split()[1] == b"408"
    with raw(server) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(get(server, "/site/" + segment_name(2, 0)) * 200)
        until(lambda: server.connections == 1)
        until(lambda: server.connections == 0)
    with raw(server) as endless:  # the head of a request that never ends
        endless.sendall(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 4000)
        assert _ended(endless)


def _ended(client: socket.socket) -> bool:
    """Whether the server ends the connection, after whatever it has sent."""
    try:
        while client.recv(1 << 16):
            pass
    except ConnectionError:
        pass
    return True


def test_downloads_that_are_given_up_free_the_link(server: PlayServer) -> None:
    media = begin(server)["media"]
    with raw(server) as client:  # 120 kB at 76 kbit/s would take 12 s
        client.sendall(get(server, media + segment_name(2, 0)))
        assert client.recv(100)
    assert ask(server, media + segment_name(0, 0), Range="bytes=0-1999").took_s < 6.0


def test_sessions_expire_and_their_number_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    table = sessions.PlaySessions(lambda: now[0])
    monkeypatch.setattr(sessions, "MOST_SESSIONS", 3)
    names = [table.begin(None, None, has_media=True) for _ in range(3)]
    assert table.full
    now[0] = 400.0
    assert table.get(names[0]) is not None
    now[0] = 700.0
    assert not table.full
    assert [table.get(name) is not None for name in names] == [True, False, False]
    assert len(set(names)) == 3


LONG = ("Content-Type: application/json", "Content-Length: 1000")


@pytest.mark.long
def test_memory_stays_flat_under_abuse_and_nothing_is_logged(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    process = psutil.Process()
    with PlayServer(Show(folder=folder, controllers={"bola": Bola()}, traces=(SLOW,)), 0) as running:

        def abuse(rounds: int) -> None:
            for _ in range(rounds):
                place = f"/api/sessions/{begin(running)['id']}"
                ask(running, place + "/decide", REPORT)
                ask(running, place + "/decide", data=b"[" * 60_000)
                with raw(running) as client:  # gone in the middle of a segment
                    client.sendall(get(running, f"/media/{place[14:]}/{segment_name(2, 0)}"))
                    client.recv(10)
                with raw(running) as client:  # gone in the middle of a report
                    client.sendall(get(running, place + "/decide", *LONG).replace(b"GET", b"POST", 1) + b"{")
                ask(running, place, method="DELETE")

        abuse(40)
        gc.collect()
        before, files = process.memory_info().rss, process.num_fds()
        abuse(80)
        gc.collect()
        assert process.memory_info().rss - before < 8 << 20
        assert process.num_fds() <= files + 4
        assert len(running.sessions) == 0
    assert not caplog.records
