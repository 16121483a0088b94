"""The decision service: sessions and decisions over HTTP. docs/how-to/play-over-a-network.md says what is asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from reelrl.errors import ConfigError
from reelrl.stream.controllers.protocol import Controller
from reelrl.stream.data.ladders import Video, read_ladder
from reelrl.stream.data.packaging import HLS, MANIFEST
from reelrl.stream.data.traces import Trace
from reelrl.stream.play.guard import ASKING_S
from reelrl.stream.play.link import Link
from reelrl.stream.play.reports import Download, Fields, PlayerReport, read_report
from reelrl.stream.play.sessions import PlaySession, PlaySessions
from reelrl.stream.play.viewing import Viewing
from reelrl.stream.simulator.observation import DEFAULT_QUALITY
from reelrl.stream.simulator.qoe import Qoe, as_qoe
from reelrl.stream.simulator.rule import DEFAULT as DEFAULT_RULE
from reelrl.stream.simulator.rule import Rule

if TYPE_CHECKING:
    from starlette.requests import Request

PLAYER, PAGE = "dashjs", "page"
"""Controllers that do not decide here: the player's own, and the page's."""
MOST_BODY_BYTES = 1 << 16
MOST_SIZES = 1 << 16  # of a ladder that a request brings along
SHOWN_SLOTS = 1000
_SESSION = dict.fromkeys(("controller", "trace", "seed", "buffer_cap_s", "qoe", "ladder"))


@dataclass(frozen=True, kw_only=True)
class Show:
    """What is served. `controllers` are loaded ones by the name they were asked for; None is the player's own."""

    folder: Path
    controllers: Mapping[str, Controller | None]
    traces: tuple[Trace, ...] = ()
    rule: Rule = DEFAULT_RULE
    buffer_cap_s: float = 60.0

    def __post_init__(self) -> None:
        for name, controller in self.controllers.items():
            if controller is not None and controller.privileged:
                raise ConfigError(f"{name} needs the future of the link, which no real one tells; choose another")

    @cached_property
    def video(self) -> Video:
        return read_ladder(self.folder).video()

    def prototype(self, name: str) -> Controller | None:
        """The controller that viewings copy."""
        return self.controllers.get(name)

    def rehearse(self) -> None:
        """Let every controller decide once: what does not fit this ladder is refused now, what compiles does it now."""
        for name, controller in self.controllers.items():
            if controller is not None:
                viewing = Viewing(self.video, controller, name, buffer_cap_s=self.buffer_cap_s)
                size = float(self.video.sizes_bytes[0, viewing.default_rung])
                done = Download(0, viewing.default_rung, size, 1000.0)
                viewing.decide(PlayerReport(min(1, self.video.chunks - 1), self.video.chunk_s, (done,)))

    def decisions(self, name: str) -> str:
        """Who decides in a viewing with this controller."""
        if name == PAGE:
            return "page"
        return "player" if self.controllers[name] is None else "service"


@dataclass(frozen=True)
class Service:
    """The answers. Decisions are taken in the server's own thread: most take less than a change of threads."""

    show: Show
    sessions: PlaySessions = field(default_factory=PlaySessions)

    async def setup(self, _: Request) -> Response:
        show, video = self.show, self.show.video
        name = next(iter(show.controllers))
        return answer(
            {
                "controllers": list(show.controllers),
                "controller": name,
                "decisions": show.decisions(name),
                "manifest": MANIFEST,
                "hls": HLS,
                "site": "/site/",
                "buffer_cap_s": show.buffer_cap_s,
                "traces": [trace.name for trace in show.traces],
                "ladder": _ladder_facts(video),
            }
        )

    async def begin(self, request: Request) -> Response:
        fields = Fields("session", await body(request), _SESSION)
        if self.sessions.full:
            raise HTTPException(503, "too many viewings are under way; end one, or wait", {"Retry-After": "60"})
        show = self.show
        name = fields.choice("controller", [*show.controllers, PAGE], next(iter(show.controllers))) or ""
        own_ladder = fields.document.get("ladder")
        video = show.video if own_ladder is None else _small_video(own_ladder)
        cap_s = fields.number("buffer_cap_s", 0.1, 3600.0, show.buffer_cap_s)
        qoe = as_qoe(fields.text("qoe", "linear"))
        utilities = qoe.utilities(video).tolist()
        controller, viewing = show.prototype(name), None
        if controller is not None:
            seed = int(fields.number("seed", 0, 2**31, 0))
            viewing = Viewing(video, controller, name, qoe=qoe, buffer_cap_s=cap_s, seed=seed)
        trace = self._trace(fields) if own_ladder is None else None
        session = self.sessions.begin(viewing, Link(trace, show.rule) if trace else None, has_media=own_ladder is None)
        facts = {
            "id": session,
            "controller": name,
            "decisions": show.decisions(name),
            "media": f"/media/{session}/" if own_ladder is None else None,
            "default_rung": min(DEFAULT_QUALITY, video.rungs - 1),
            "buffer_cap_s": cap_s,
            "sizes_bytes": video.sizes_bytes.tolist(),
            "qoe": _qoe_facts(qoe) | {"utilities": utilities},
            "trace": _trace_facts(trace) if trace else None,
        }
        return answer(facts | _ladder_facts(video), 201)

    async def decide(self, request: Request) -> Response:
        viewing = self._session(request).viewing
        if viewing is None:
            raise HTTPException(409, "decisions of this viewing are the page's or the player's; do not ask for them")
        report = read_report(await body(request), viewing.video.chunks, viewing.video.rungs)
        return answer(viewing.decide(report).as_json())

    async def end(self, request: Request) -> Response:
        self._session(request)
        self.sessions.end(request.path_params["id"])
        return Response(status_code=204)

    def _session(self, request: Request) -> PlaySession:
        name: str = request.path_params["id"]
        session = self.sessions.get(name)
        if session is None:
            raise HTTPException(404, f"there is no session {name!r:.40}; it has ended or expired: POST /api/sessions")
        return session

    def _trace(self, fields: Fields) -> Trace | None:
        by_name = {trace.name: trace for trace in self.show.traces}
        chosen = fields.choice("trace", list(by_name), None)
        if chosen is not None:
            return by_name[chosen]
        return self.show.traces[self.sessions.begun % len(self.show.traces)] if by_name else None


def answer(document: Mapping[str, Any], status: int = 200) -> JSONResponse:
    return JSONResponse(document, status, headers={"cache-control": "no-store"})


async def body(request: Request) -> Any:
    """The JSON of a request, which is small, comes soon and holds no NaN."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # Anything else a foreign page could send without asking first.
        raise HTTPException(415, f"the content type is {kind!r:.40}; send application/json")
    text = bytearray()
    try:
        async with asyncio.timeout(ASKING_S):
            async for piece in request.stream():
                text += piece
                if len(text) > MOST_BODY_BYTES:
                    raise HTTPException(413, f"the body is longer than {MOST_BODY_BYTES} bytes; send less")
    except TimeoutError:
        raise HTTPException(408, f"the body did not come within {ASKING_S:g} s; send it at once") from None
    try:
        return json.loads(bytes(text), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is no JSON ({str(error)[:80]}); send one object") from None


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no number")


def _small_video(document: Any) -> Video:
    """The video of a ladder that a request brings."""
    if not isinstance(document, dict):
        raise ConfigError(f"ladder is a {type(document).__name__}; give the object that ladder.json holds")
    ladder = read_ladder(document)
    sizes = (ladder.chunks or 0) * len(ladder.bitrates_kbps)
    if sizes > MOST_SIZES:
        raise ConfigError(f"ladder: {sizes} segments over all rungs; give {MOST_SIZES} at most")
    return ladder.video()


def _ladder_facts(video: Video) -> dict[str, Any]:
    return {"bitrates_kbps": video.bitrates_kbps.tolist(), "chunk_s": video.chunk_s, "chunks": video.chunks}


def _qoe_facts(qoe: Qoe) -> dict[str, Any]:
    return {"variant": qoe.variant, "stall_penalty": qoe.stall_penalty, "smooth_penalty": qoe.smooth_penalty}


def _trace_facts(trace: Trace) -> dict[str, Any]:
    return {
        "name": trace.name,
        "edges_s": trace.edges_s[: SHOWN_SLOTS + 1].tolist(),
        "kbps": trace.kbps[:SHOWN_SLOTS].tolist(),
        "latency_ms": trace.latency_ms[:SHOWN_SLOTS].tolist(),
    }
