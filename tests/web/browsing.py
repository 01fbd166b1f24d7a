"""A Chromium that is found on this machine, owned by a context manager; nothing is fetched for it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@cache
def chromium() -> str | None:
    """On the path, else Playwright's own, if somebody installed it."""
    for name in NAMES:
        if found := shutil.which(name):
            return found
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    return own if own and Path(own).exists() else None


@contextmanager
def browser() -> Iterator[Browser]:
    """Ended with the block, by its own process."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium(), args=list(QUIET))
        try:
            yield running
        finally:
            running.close()


@contextmanager
def page_of(
    running: Browser, address: str, width: int = 1280, theme: str = "light"
) -> Iterator[tuple[Page, list[str]]]:
    """A page, and what its console complains of, with whatever the policy refused."""
    complaints: list[str] = []
    context = running.new_context(
        base_url=address, viewport={"width": width, "height": 860}, color_scheme="dark" if theme == "dark" else "light"
    )
    try:
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda asked: None if asked.url.startswith(address) else complaints.append(asked.url))
        yield page, complaints
    finally:
        context.close()
