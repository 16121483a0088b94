"""Page, segments and decisions as one application.

request ──► Guard ──┬─► /            the page and its scripts
                    ├─► /site/       the files of `reel ladder`, at once
                    ├─► /media/ID/   the same over a viewing's link
                    └─► /api/        setup, sessions, decisions
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from reelrl.errors import ReelError
from reelrl.stream.play.link import over
from reelrl.stream.play.service import Service

if TYPE_CHECKING:
    import os

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from reelrl.stream.play.service import Show
    from reelrl.stream.play.sessions import PlaySessions

PAGE_FOLDER = Path(__file__).parent / "page"
TYPES = {
    ".mpd": "application/dash+xml",
    ".m3u8": "application/vnd.apple.mpegurl",
    ".m4s": "video/iso.segment",
    ".mp4": "video/mp4",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".json": "application/json",
}


class Files(StaticFiles):
    """Files of a folder with the types that players expect; `HEAD` and `Range` are Starlette's."""

    async def check_config(self) -> None:
        """A folder that is not there has no files; Starlette would call that an error of the server."""

    def file_response(
        self, full_path: str | os.PathLike[str], stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        kind = TYPES.get(Path(full_path).suffix.lower())
        if kind and isinstance(response, FileResponse):
            response.headers["content-type"] = kind
        response.headers["cache-control"] = "no-store"  # a viewing is downloaded anew, or its link would mean nothing
        return response


class Media:
    """The site's files over the link of a viewing."""

    def __init__(self, files: Files, sessions: PlaySessions) -> None:
        self._files = files
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = self._sessions.get(scope["path_params"]["id"])
        if session is None or not session.has_media:
            raise HTTPException(404, "there is no such viewing; it has ended or expired: POST /api/sessions")
        # What the simulator does not know of, manifests and the heads of streams, comes at once.
        shaped = scope["path"].endswith(".m4s") and scope["method"] == "GET"
        await self._files(scope, receive, over(session.link, send) if shaped and session.link else send)


def make_app(show: Show, sessions: PlaySessions) -> Starlette:
    """The application, without the guard."""
    service = Service(show, sessions)
    site, page = Files(directory=show.folder), Files(directory=PAGE_FOLDER, html=True, check_dir=False)
    return Starlette(
        routes=[
            Route("/api/setup", service.setup),
            Route("/api/sessions", service.begin, methods=["POST"]),
            Route("/api/sessions/{id}/decide", service.decide, methods=["POST"]),
            Route("/api/sessions/{id}", service.end, methods=["DELETE"]),
            Mount("/media/{id}", Media(site, sessions)),
            Mount("/site", site),
            Mount("/page", page),
            Mount("/", page),
        ],
        exception_handlers={HTTPException: _refused, ReelError: _wrong, ClientDisconnect: _gone},
    )


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - as registered
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


async def _gone(_: Request, __: Exception) -> Response:
    return Response(status_code=400)  # nobody is there to read it


async def _wrong(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 400)
