# SPDX-License-Identifier: BSD-3-Clause
"""A headless Chromium, spoken to over its DevTools protocol."""

import itertools
import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from websockets.sync.client import connect
from websockets.sync.connection import Connection

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")

_FLAGS = (
    *("--headless", "--no-sandbox", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--remote-debugging-port=0"),
    *("--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"),
)
_START_S = 60.0


class Browser:
    """One page, what it wrote to its console, and what it asked for."""

    def __init__(self, socket: Connection) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self.errors: list[str] = []
        self.requests: list[str] = []
        """Addresses, after ``call("Network.enable")``: it would also tell all that a page's own server sends."""

        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=_START_S))
            self._remember(message)
            if message.get("id") == number:
                return message["result"]

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page; that of a promise when it is kept."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def text(self) -> str:
        """Return what a reader of the page sees."""
        return self.evaluate("document.body?.innerText ?? ''")

    def wait_for(self, text: str, seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while text not in self.text():
            assert time.monotonic() < end, f"the page never showed {text!r}: {self.text()!r}"
            time.sleep(0.2)

    def click(self, text: str) -> None:
        """Click what has a text, such as a button or a tab, once it stands still."""
        x, y = self._middle_of(text)
        # A page that is still filling would move it away from under the pointer.
        time.sleep(0.2)
        while (now := self._middle_of(text)) != (x, y):
            x, y = now
            time.sleep(0.2)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def _middle_of(self, text: str) -> tuple[float, float]:
        find = f"[...document.querySelectorAll('*')].filter(e => e.innerText?.trim() === {text!r}).pop()"
        middle = self.evaluate(f"(r => r && [r.x + r.width / 2, r.y + r.height / 2])({find}?.getBoundingClientRect())")
        assert middle, f"nothing on the page is {text!r}"
        x, y = middle
        return x, y

    def press(self, key: str) -> None:
        """Press a letter and let it go."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=f"Key{key.upper()}", text=key)

    def _remember(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(parameters["exceptionDetails"].get("exception", parameters["exceptionDetails"])))
        elif message.get("method") == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "assert"):
            self.errors.append(str([part.get("value", part.get("description")) for part in parameters["args"]]))
        elif message.get("method") == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif message.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")


@contextmanager
def browser(folder: Path, size: tuple[int, int] = (1600, 900)) -> Iterator[Browser]:
    """Start Chromium with a profile in ``folder``."""
    assert CHROMIUM is not None
    command = [CHROMIUM, *_FLAGS, f"--user-data-dir={folder}", f"--window-size={size[0]},{size[1]}", "about:blank"]
    log = folder / "chromium.log"
    folder.mkdir(exist_ok=True)
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as process:
        try:
            with connect(_page_address(log), max_size=None) as socket:
                yield Browser(socket)
        finally:
            process.terminate()


def _page_address(log: Path) -> str:
    end = time.monotonic() + _START_S
    while not (found := re.search(r"ws://([^/]+)/devtools", log.read_text(errors="replace"))):
        assert time.monotonic() < end, log.read_text(errors="replace")
        time.sleep(0.1)
    with urlopen(f"http://{found[1]}/json/list") as answer:
        return next(page["webSocketDebuggerUrl"] for page in json.load(answer) if page["type"] == "page")
