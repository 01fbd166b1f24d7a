"""Messages on real brokers: each is marked as what it became, and what is hostile stays text."""

from __future__ import annotations

import time
from html.parser import HTMLParser
from os import urandom
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer

from fencepost.local import Stack
from producing.topics import Topics
from support.hostile import HEADERS, KEYS, TEXTS, VALUES
from web.serving import PATIENCE
from web.transactions import commit, transaction, written

EVERYTHING = {"isolation": "read_uncommitted", "from": "oldest", "n": "500"}


def marks(web: httpx.Client, topic: str, **query: str) -> list[str]:
    found = web.get(f"/api/topics/{topic}/messages", params={**EVERYTHING, **query}).json()
    return ["waiting" if one["held"] else one["marker"] or one["visibility"] for one in found["messages"]]


def marks_become(web: httpx.Client, topic: str, expected: list[str]) -> None:
    """Markers come behind the answer to a commit, and what is shown is some seconds old."""
    deadline = time.monotonic() + PATIENCE
    while (found := marks(web, topic)) != expected:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def test_each_record_is_what_its_transaction_became(web: httpx.Client, topics: Topics, stack: Stack) -> None:
    name, servers = topics.make(partitions=1), stack.bootstrap_servers
    with transaction(servers, name, 2) as producer:
        commit(producer)
    topics.await_decided(name)
    with transaction(servers, name, 1):
        pass
    topics.await_decided(name)
    written(servers, name, (None, "plain"))
    with transaction(servers, name, 2):
        written(servers, name, (None, "behind"))
        before = ["committed", "committed", "commit", "aborted", "abort", "committed"]
        marks_become(web, name, [*before, "open", "open", "waiting"])
        found = web.get(f"/api/topics/{name}/messages", params={"from": "oldest"}).json()
        assert [one["offset"] for one in found["messages"]] == [0, 1, 5]
        assert found["hidden"] == {"control": 2, "aborted": 1, "open": 2, "waiting": 1}
        page = web.get(f"/topics/{name}/messages", params=EVERYTHING).text
        assert page.count('class="mark open"') == 2
    marks_become(web, name, [*before, "aborted", "aborted", "committed", "abort"])


def test_by_offset_time_and_key(web: httpx.Client, topics: Topics, stack: Stack) -> None:
    name = topics.make(partitions=1)
    written(stack.bootstrap_servers, name, *((f"k{n % 3}", f"v{n}") for n in range(10)))

    def values(**query: str) -> list[Any]:
        found = web.get(f"/api/topics/{name}/messages", params=query).json()
        return [one["value"]["text"] for one in found["messages"]]

    assert values(partition="0", **{"from": "offset"}, offset="7") == ["v7", "v8", "v9"]
    assert values(**{"from": "key"}, key="k1") == ["v1", "v4", "v7"]
    assert values(**{"from": "time"}, time="2020-01-01") == [f"v{n}" for n in range(10)]
    assert values(**{"from": "time"}, time="2199-01-01T00:00+01:00") == []
    assert values(n="2") == ["v9", "v8"]
    assert values(partition="0", **{"from": "offset"}, offset="9223372036854775807") == []


@pytest.mark.parametrize(
    "query",
    [
        {"partition": "7"},
        {"partition": "-1"},
        {"partition": "\u0663"},
        {"from": "nowhere"},
        {"from": "offset", "offset": "9" * 40},
        {"from": "time", "time": "yesterday"},
        {"isolation": "dirty"},
        {"n": "many"},
    ],
)
def test_nonsense_is_told(web: httpx.Client, topics: Topics, query: dict[str, str]) -> None:
    found = web.get(f"/api/topics/{topics.make(partitions=1)}/messages", params=query)
    assert found.status_code in (400, 404)
    assert found.json()["remedy"]


class Elements(HTMLParser):
    """Which elements a browser makes of a page, and with which attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_hostile_records_stay_text(web: httpx.Client, topics: Topics, stack: Stack) -> None:
    name = topics.make(partitions=1)
    usual = Elements(web.get(f"/topics/{name}/messages").text)
    attack = '"><img src=x onerror=alert(1)><script>alert(2)</script>'
    texts = ((text, text) for text in TEXTS.values())
    values = ((key, value) for key, value in VALUES.items())
    keys = ((key, b"v") for key in KEYS.values())
    written(stack.bootstrap_servers, name, *texts, *values, *keys, (attack, attack), ("1 MB", b"x" * 900_000))
    page = web.get(f"/topics/{name}/messages", params=EVERYTHING).text
    assert len(page) < 1_000_000
    found = Elements(page)
    assert not found.tags & {"img", "iframe", "object"}
    assert "onerror" not in found.attributes
    assert found.tags - usual.tags <= {"time", "tr", "td", "table", "thead", "tbody", "th", "code", "div", "span", "a"}
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    last = web.get(f"/api/topics/{name}/messages").json()["messages"][0]
    assert last["value"]["bytes"] == 900_000
    assert last["value"]["cut"]


@pytest.mark.parametrize("case", range(0, len(VALUES), 12))
def test_the_page_of_one_record_shows_anything(web: httpx.Client, topics: Topics, stack: Stack, case: int) -> None:
    name, some = topics.make(partitions=1), list(VALUES.items())[case : case + 12]
    written(stack.bootstrap_servers, name, *some)
    for offset in range(len(some)):
        page = web.get(f"/topics/{name}/records/0/{offset}")
        assert page.status_code == 200, some[offset]
        assert len(page.text) < 2_000_000
        assert not Elements(page.text).tags & {"img", "iframe", "object"}


def test_headers_of_any_kind(web: httpx.Client, topics: Topics, stack: Stack) -> None:
    from confluent_kafka import Producer

    name = topics.make(partitions=1)
    producer = Producer({"bootstrap.servers": stack.bootstrap_servers})
    for headers in HEADERS.values():
        producer.produce(name, b"v", headers=headers, partition=0)  # type: ignore[arg-type]
    assert producer.flush(30) == 0
    for offset in range(len(HEADERS)):
        assert web.get(f"/topics/{name}/records/0/{offset}").status_code == 200
        assert web.get(f"/api/topics/{name}/messages/0/{offset}").status_code == 200


def test_what_is_not_there_is_told(web: httpx.Client, topics: Topics) -> None:
    name = topics.make(partitions=1)
    assert web.get(f"/topics/{name}/records/0/5").status_code == 404
    assert web.get(f"/topics/{name}/records/9/0").status_code == 404
    assert web.get(f"/topics/{name}/records/0/{9**50}").status_code == 404
    assert "No records here" in web.get(f"/topics/{name}/messages").text


def test_long_numbers_in_an_address_are_no_page(web: httpx.Client, topics: Topics) -> None:
    name = topics.make(partitions=1)
    for path in ("0/" + "9" * 5_000, "9" * 5_000 + "/0", "0/-1", "0/\N{ARABIC-INDIC DIGIT ONE}"):
        assert web.get(f"/topics/{name}/records/{path}").status_code == 404
    assert web.head(f"/topics/{name}").status_code == 200


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_the_newest_are_the_newest_however_large_they_are(
    web: httpx.Client, topics: Topics, stack: Stack, codec: str
) -> None:
    name = topics.make(partitions=1)
    producer = Producer({**topics.kafka, "linger.ms": 0, "compression.type": codec})
    for number in range(40):
        producer.produce(name, f"{number}".encode() + urandom(900_000), partition=0)
        assert producer.flush(30) == 0
    found = web.get(f"/api/topics/{name}/messages", params={"partition": "0", "from": "newest", "n": "50"}).json()
    assert found["messages"][0]["offset"] == 39
    assert found["stopped"]
    oldest = web.get(f"/api/topics/{name}/messages", params={"partition": "0", "from": "oldest", "n": "50"}).json()
    offsets = [one["offset"] for one in oldest["messages"]]
    assert offsets == list(range(len(offsets)))
    assert oldest["partitions"][0]["to"] == len(offsets)
