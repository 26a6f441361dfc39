"""Chromium without a window, driven by playwright; from the Debian package `chromium`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from playwright.sync_api import Browser, Page, sync_playwright

from servers.packages import install

__all__ = ["WatchedPage", "open_browser", "watch"]


@dataclass
class WatchedPage:
    """A page, and what went wrong on it.

    Attributes:
        page: The page.
        troubles: Errors of scripts, messages of the console, requests that failed or went elsewhere.
    """

    page: Page
    troubles: list[str] = field(default_factory=list)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start a browser, and end it behind the block."""
    if shutil.which("chromium") is None:
        install("chromium")
    path = shutil.which("chromium")
    assert path is not None
    with sync_playwright() as playwright:
        # The sandbox needs rights that a container may lack; pages are our own.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def watch(browser: Browser, base: str, *, width: int = 1280, dark: bool = False) -> WatchedPage:
    """Open an empty page that notes what goes wrong, and reaches nothing but the server at `base`."""
    page = browser.new_page(
        viewport={"width": width, "height": 860}, color_scheme="dark" if dark else "light"
    )
    watched = WatchedPage(page)
    page.on("pageerror", lambda error: watched.troubles.append(f"error: {error}"))
    page.on("console", lambda message: watched.troubles.append(f"{message.type}: {message.text}"))

    def fetch(route, request) -> None:  # type: ignore[no-untyped-def]
        if request.url.startswith(base):
            route.continue_()
        else:
            watched.troubles.append(f"asked for {request.url}")
            route.abort()

    page.route("**/*", fetch)
    return watched
