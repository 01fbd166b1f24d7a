"""The page in a real Chromium: live parts, keys, themes, widths, and that hostile records stay text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from uuid import uuid4

import httpx
import pytest
from playwright.sync_api import Browser, Dialog, expect

from fencepost.local import Stack
from producing.topics import Topics
from support.gate_cases import in_the_gate
from support.hostile import TEXTS, VALUES
from web.browsing import browser, chromium, page_of
from web.groups import committed
from web.hanging import hang
from web.serving import page_with
from web.transactions import transaction, written

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium on the path, nor Playwright's own")
SECONDS = 30_000  # of patience, in milliseconds


@pytest.fixture(scope="module")
def running() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture
def topic(topics: Topics, stack: Stack) -> str:
    name = topics.make(partitions=1)
    written(stack.bootstrap_servers, name, *((f"k{n}", f'{{"n": {n}, "deep": {{"er": [1, 2]}}}}') for n in range(5)))
    return name


@pytest.mark.parametrize(
    ("width", "theme"), in_the_gate(product([1280, 390], ["light", "dark"]), (1280, "light"), (390, "dark"))
)
def test_every_page_fits_and_complains_of_nothing(
    running: Browser, address: str, topic: str, width: int, theme: str
) -> None:
    paths = ["/", "/pipelines", "/topics", "/groups", "/transactions", "/events", "/lab", f"/topics/{topic}",
             f"/topics/{topic}/messages", f"/topics/{topic}/records/0/1", "/topics?q=no-such-topic"]  # fmt: skip
    with page_of(running, address, width, theme) as (page, complaints):
        for path in paths:
            page.goto(path)
            expect(page.locator("h1")).to_be_visible()
            wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, f"{path} is {wide} pixels wider than {width}"
        assert complaints == []


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_a_broker_goes_and_comes_back_while_somebody_looks(running: Browser, address: str, stack: Stack) -> None:
    lost = stack.node("broker-3")
    with page_of(running, address) as (page, _):  # a browser may complain of an answer that took too long
        page.goto("/")
        told = page.get_by_text(f"broker {lost.node_id} is down")
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        expect(told).to_have_count(0)
        lost.kill()
        try:
            expect(told.first).to_be_visible(timeout=2 * SECONDS)
        finally:
            lost.restart()
            stack.wait_in_sync()
        expect(told).to_have_count(0, timeout=2 * SECONDS)


@pytest.mark.proof
def test_lag_rises_and_falls_while_somebody_looks(running: Browser, address: str, topics: Topics, stack: Stack) -> None:
    name, group, servers = topics.make(partitions=1), f"g-{uuid4().hex}", stack.bootstrap_servers
    written(servers, name, *((None, str(n)) for n in range(5)))
    committed(servers, group, name, 3)
    with page_of(running, address) as (page, complaints):
        page.goto(f"/group?name={group}")
        behind = page.locator(".figures b").first
        expect(behind).to_have_text("2", timeout=SECONDS)
        written(servers, name, (None, "one more"))
        expect(behind).to_have_text("3", timeout=SECONDS)
        committed(servers, group, name, 6)
        expect(behind).to_have_text("0", timeout=SECONDS)
        expect(page.locator("[data-chart] canvas")).to_have_count(2, timeout=2 * SECONDS)
        page.get_by_role("link", name="6 h").click()
        for measure in ("records", "seconds"):
            chart = page.locator(f"[data-chart*='measure={measure}']")
            expect(chart).to_have_attribute("data-chart", f"/api/group/history?name={group}&measure={measure}&hours=6")
        assert complaints == []


def test_a_transaction_appears_and_goes_while_somebody_looks(
    running: Browser, address: str, topics: Topics, stack: Stack
) -> None:
    name, id_ = topics.make(partitions=1), f"txn-{uuid4().hex}"
    with page_of(running, address) as (page, complaints):
        page.goto("/transactions")
        held = page.get_by_role("row").filter(has_text=f"{name}/0")
        expect(held).to_have_count(0)
        with transaction(stack.bootstrap_servers, name, 3, id_):
            expect(held).to_contain_text(id_, timeout=SECONDS)
        expect(held).to_have_count(0, timeout=SECONDS)
        assert complaints == []


def test_who_follows_a_topic_sees_records_come(running: Browser, address: str, topic: str, stack: Stack) -> None:
    with page_of(running, address) as (page, complaints):
        page.goto(f"/topics/{topic}/messages")
        page.get_by_role("link", name="follow").click()
        expect(page.get_by_role("link", name="following")).to_be_visible()
        written(stack.bootstrap_servers, topic, ("late", "just sent"))
        expect(page.locator("tbody")).to_contain_text("just sent", timeout=SECONDS)
        with transaction(stack.bootstrap_servers, topic, 1):
            expect(page.locator(".hidden")).to_contain_text("1 open", timeout=SECONDS)
            page.get_by_role("link", name="read_uncommitted").click()
            expect(page.locator(".mark.open")).to_have_count(1)
        expect(page.locator(".mark.aborted")).to_have_count(1, timeout=SECONDS)
        assert complaints == []


def test_hostile_records_run_nothing(running: Browser, address: str, topics: Topics, stack: Stack) -> None:
    name = topics.make(partitions=1)
    attack = '"><img src=x onerror="document.title=1"><script>document.title=2</script>'
    texts = ((text, text) for text in TEXTS.values())
    written(stack.bootstrap_servers, name, *texts, *VALUES.items(), (attack, attack), ("1 MB", b"<b>" * 300_000))
    with page_of(running, address, 390) as (page, complaints):
        page.goto(f"/topics/{name}/messages?isolation=read_uncommitted&from=oldest&n=500")
        expect(page.locator("tbody")).to_contain_text("onerror", timeout=SECONDS)
        last = len(TEXTS) + len(VALUES)
        for offset in (last, last + 1):
            page.goto(f"/topics/{name}/records/0/{offset}")
            assert page.title() == f"{name} 0/{offset} · Fencepost"
            assert page.locator("main img, main script, main b b").count() == 0
        assert complaints == []


def test_keys_lead_everywhere_and_the_theme_stays(
    running: Browser, address: str, topic: str, web: httpx.Client
) -> None:
    page_with(web, f"/topics?q={topic}", f"/topics/{topic}")
    with page_of(running, address) as (page, _):
        page.goto("/")
        page.keyboard.press("g")
        page.keyboard.press("t")
        expect(page.locator("h1")).to_have_text("Topics")
        page.keyboard.press("/")
        page.keyboard.type(topic)
        page.keyboard.press("Enter")
        expect(page).to_have_url(f"{address}/topics?q={topic}")
        page.locator("#main").focus()
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text(topic)
        page.keyboard.press("d")
        assert page.evaluate("document.documentElement.dataset.theme") == "light"
        page.keyboard.press("d")
        page.reload()
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_be_visible()


def test_json_folds(running: Browser, address: str, topic: str) -> None:
    with page_of(running, address) as (page, _):
        page.goto(f"/topics/{topic}/records/0/3")
        inner = page.locator("details", has_text="er").last
        expect(page.locator(".json")).to_contain_text("deep")
        page.locator("summary").first.click()
        expect(inner).not_to_be_visible()


def test_one_that_hangs_is_ended_by_a_button_that_asks(
    running: Browser, address: str, topics: Topics, web: httpx.Client
) -> None:
    name = topics.make(partitions=1)
    hang(topics.kafka, name)
    page_with(web, "/api/transactions/hanging", name)
    with page_of(running, address) as (page, _):
        asked: list[str] = []
        page.goto("/transactions")
        row = page.locator(".hanging").get_by_role("row").filter(has_text=f"{name}/0")

        def refuse(dialog: Dialog) -> None:
            asked.append(dialog.message)
            dialog.dismiss()

        page.once("dialog", refuse)
        row.get_by_role("button", name="Abort").click()
        assert f"{name}/0" in asked[0]
        page.once("dialog", lambda dialog: dialog.accept())
        row.get_by_role("button", name="Abort").click()
        expect(row).to_have_count(0, timeout=SECONDS)
    topics.await_decided(name)
