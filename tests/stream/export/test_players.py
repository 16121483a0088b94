"""The adapters of an exported policy in real players, in a real browser, on a video that `reel ladder` packaged."""

from __future__ import annotations

import http.server
import json
import os
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import reelrl.stream
from reelrl.cli.main import main
from tests.browser import PROGRAM, Chromium

if TYPE_CHECKING:
    from collections.abc import Iterator

LIBRARIES = Path(reelrl.stream.__file__).parent / "play" / "page" / "vendor"
PAGES = {
    "dash": """
        const player = dashjs.MediaPlayer().create();
        policy.forDash(player, dashjs, options);
        player.initialize(video, "site/manifest.mpd", true);
    """,
    "hls": """
        const player = new Hls({ abrController: policy.forHls(Hls, options) });
        player.loadSource("site/master.m3u8");
        player.attachMedia(video);
        video.play();
    """,
    "shaka": """
        const player = new shaka.Player();
        await player.attach(video);
        player.configure("abrFactory", policy.forShaka(player, options));
        await player.load("site/manifest.mpd");
        video.play();
    """,
}
SCRIPTS = {"dash": "dash.all.min.js", "hls": "hls.min.js", "shaka": "shaka-player.compiled.js"}
PAGE = """<!doctype html><meta charset="utf-8"><video id="video" muted></video><script src="vendor/%(script)s"></script>
<script type="module">
import * as policy from "./policy/policy.js";
window.decisions = [];
const video = document.getElementById("video"), ladder = await (await fetch("site/ladder.json")).json();
const options = { ladder, qoe: "scaled", onDecision: decision => window.decisions.push(decision) };
video.addEventListener("ended", () => { window.ended = true; });
%(code)s
</script>"""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not PROGRAM and not os.environ.get("CI"), reason="no Chromium here"),
    pytest.mark.skipif(not LIBRARIES.is_dir(), reason="no players here; run: python hatch_build.py"),
]


class Asked(http.server.SimpleHTTPRequestHandler):
    """Serves a folder and remembers what was asked for."""

    def __init__(self, *arguments: Any, log: list[str], **named: Any) -> None:
        self.log = log
        super().__init__(*arguments, **named)

    def do_GET(self) -> None:
        self.log.append(self.path)
        super().do_GET()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A video of eight seconds in four rungs, an exported policy, the players, and a page for each."""
    place = tmp_path_factory.mktemp("players")
    clip = "generated:street?size=192x112&frames=80&fps=10"
    rates = ["--kbps", "110", "220", "400", "700"]
    assert main(["ladder", clip, "-o", str(place / "site"), "--segment", "1", "--preset", "12", *rates]) == 0
    assert main(["export", "abr", "scalefree", "-o", str(place / "policy")]) == 0
    (place / "vendor").symlink_to(LIBRARIES)
    for name, code in PAGES.items():
        (place / f"{name}.html").write_text(PAGE % {"script": SCRIPTS[name], "code": code}, encoding="utf-8")
    return place


@pytest.fixture
def served(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The folder's address, and what is asked of it."""
    log: list[str] = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Asked, directory=str(folder), log=log))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/", log
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("name", PAGES)
def test_a_player_plays_to_the_end_what_the_policy_chooses(
    name: str, served: tuple[str, list[str]], folder: Path
) -> None:
    url, log = served
    with Chromium(deadline_s=120) as browser:
        browser.open(f"{url}{name}.html")
        browser.wait_for("window.ended || (video.paused && video.duration - video.currentTime < 0.1)")
        decisions = browser.evaluate("window.decisions")
        assert browser.errors == []
    asked = [path for path in log if "chunk-stream" in path]
    chosen = {decision["chunk"]: decision["rung"] for decision in decisions}  # the last word on a segment counts
    rung_of = {}
    for path in asked:
        stream, number = path.partition("chunk-stream")[2].removesuffix(".m4s").split("-")
        rung_of[int(number) - 1] = int(stream)
    segments = len(json.loads((folder / "site" / "ladder.json").read_text())["sizes_bytes"])
    assert sorted(rung_of) == list(range(segments))
    assert len(asked) == segments  # nothing is loaded twice
    first = min(chosen)
    assert first <= 2
    assert {segment: rung for segment, rung in rung_of.items() if segment in chosen} == {
        segment: rung for segment, rung in chosen.items() if segment < segments
    }
    # Over loopback everything arrives at once: it climbs.
    assert rung_of[segments - 1] > rung_of[0]
