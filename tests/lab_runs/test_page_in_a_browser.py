"""The lab's page in a real Chromium: a cell leads to its run and back, in both themes, and nothing is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from fencepost.lab.report.page import write_report
from support.lab_made import NAME, made, verdict
from web.browsing import browser, chromium, page_of

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium on the path, nor Playwright's own")


@pytest.fixture(scope="module")
def running() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_a_cell_shows_what_happened(running: Browser, tmp_path: Path, width: int, theme: str) -> None:
    made(tmp_path, verdict(tells="<b>bold</b> & more"))
    path, _ = write_report(tmp_path, tmp_path)
    with page_of(running, path.as_uri(), width, theme) as (page, complaints):
        page.goto(path.as_uri())
        run = page.locator(f"section#{NAME}")
        expect(run).to_be_hidden()
        page.locator(f'a[href="#{NAME}"]').click()
        expect(run).to_be_visible()
        expect(run).to_contain_text("<b>bold</b> & more")
        expect(run.locator("svg").first).to_be_visible()
        expect(run.locator("code")).to_contain_text(f"fencepost lab run {NAME}")
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0
        run.locator("a.close").click()
        expect(run).to_be_hidden()
        expect(page.locator("table").first).to_be_visible()
        assert complaints == []
