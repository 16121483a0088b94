"""A headless Chromium, driven over its own pipe: no driver to install.

with Chromium() as browser:
    browser.open(url)
    browser.wait_for("document.title === 'ready'")
    browser.screenshot(path)
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING, Any, Self

from reelrl.errors import ReelError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PROGRAM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)


class BrowserError(ReelError):
    """Chromium is missing, went away, or a page did not do what was waited for."""


class Chromium:
    """One page. Chromium reads commands from its descriptor 3 and answers on 4, each ended by a zero byte."""

    def __init__(self, width: int = 1280, height: int = 1000, *, dark: bool = False, deadline_s: float = 60) -> None:
        if not PROGRAM:
            raise BrowserError("no Chromium was found on the PATH; install it: sudo apt-get install -y chromium")
        self.deadline_s = deadline_s
        self._profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        commands, self._out = os.pipe()
        self._in, answers = os.pipe()
        scheme = 0 if dark else 1
        words = [
            *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"),
            *("--autoplay-policy=no-user-gesture-required", "--mute-audio"),
            f"--window-size={width},{height}",
            f"--blink-settings=preferredColorScheme={scheme}",
            f"--user-data-dir={self._profile.name}",
        ]
        # The shell puts the pipes where Chromium looks for them.
        place = f'exec "$0" "$@" 3<&{commands} 4>&{answers}'
        self._process = subprocess.Popen(
            ["bash", "-c", place, PROGRAM, *words, "about:blank"],
            pass_fds=[commands, answers],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._number = 0
        self._rest = b""
        self.errors: list[str] = []
        """What the page's scripts threw."""
        targets = self._ask("Target.getTargets")["targetInfos"]
        target = next(one["targetId"] for one in targets if one["type"] == "page")
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._page("Page.enable")
        self._page("Runtime.enable")
        # A window is never narrower than 500 pixels; a phone's screen is.
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._page("Emulation.setDeviceMetricsOverride", **screen)

    def open(self, url: str) -> None:
        self._page("Page.navigate", url=url)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        return self._page("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def wait_for(self, expression: str, *, every_s: float = 0.05, stopped: Callable[[], bool] = lambda: False) -> None:
        """Return once the expression is true; `stopped` says that nobody waits for it any more."""
        end_s = time.monotonic() + self.deadline_s
        while not self.evaluate(expression):
            if stopped():
                raise BrowserError(f"stopped before {expression} became true; begin again")
            if time.monotonic() > end_s:
                raise BrowserError(
                    f"{expression} did not become true within {self.deadline_s:g} s; errors in the page: {self.errors}"
                )
            time.sleep(every_s)

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._page("Page.captureScreenshot", captureBeyondViewport=True)["data"]))

    def close(self) -> None:
        os.close(self._out)
        os.close(self._in)
        self._process.kill()
        self._process.wait()
        self._profile.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _page(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._ask(method, self._session, **parameters)

    def _ask(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        self._number += 1
        request = {"id": self._number, "method": method, "params": parameters}
        os.write(self._out, json.dumps(request | ({"sessionId": session} if session else {})).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("method") == "Runtime.exceptionThrown":
                self.errors.append(str(answer["params"]["exceptionDetails"]))
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"Chromium refused {method}: {answer['error']}; is it a version we know?")
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready = select.select([self._in], [], [], self.deadline_s)[0]
            part = os.read(self._in, 1 << 20) if ready else b""
            if not part:
                raise BrowserError(f"Chromium said nothing for {self.deadline_s:g} s or went away; start it again")
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found
