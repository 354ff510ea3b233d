"""A real browser for tests: Debian's Chromium without a window, and a page that is watched."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support import HANG_S


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium; a test without one is skipped."""
    sync_api = pytest.importorskip("playwright.sync_api")
    # Debian's command is a shell script that brings settings for a desktop.
    own = Path("/usr/lib/chromium/chromium")
    found = own if own.exists() else shutil.which("chromium") or shutil.which("google-chrome")
    if not found:
        pytest.skip("there is no Chromium: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        made = playwright.chromium.launch(executable_path=str(found), args=options)
        yield made
        made.close()


class Watched:
    """A page that keeps whom it has asked, and what the browser complained of."""

    def __init__(
        self, browser: Any, address: str, width: int = 1280, scheme: str = "light"
    ) -> None:
        size = {"width": width, "height": 900}
        self.context = browser.new_context(viewport=size, color_scheme=scheme)
        self.page = self.context.new_page()
        self.page.set_default_timeout(HANG_S * 1000)
        self.asked: set[str] = set()
        self.complaints: list[str] = []
        self.host = address.split("/")[2]
        self.page.on("request", lambda request: self.asked.add(request.url.split("/")[2]))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._said)
        self.page.goto(address)

    def _said(self, message: Any) -> None:
        expected = "status of 404" in message.text or "status of 400" in message.text
        if message.type == "error" and not expected:
            self.complaints.append(message.text)

    def show(self, path: str, ready: str) -> Any:
        """The page, once what fits the selector ``ready`` is there."""
        self.page.goto(f"http://{self.host}{path}")
        self.page.wait_for_selector(ready, state="attached")
        return self.page

    def close(self) -> None:
        """Nobody but the server was asked, and nothing was refused by the policy."""
        self.context.close()
        assert self.asked == {self.host}
        assert self.complaints == []


def tab_to(page: Any, wanted: str) -> None:
    """Press Tab until the element of a selector has the focus, which must be seen."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate("(s) => document.activeElement.matches(s)", wanted):
            outline = "getComputedStyle(document.activeElement).outlineStyle"
            assert page.evaluate(outline) != "none"
            return
    raise AssertionError(f"no way to {wanted}")
