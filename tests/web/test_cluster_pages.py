"""Overview and topics on real brokers: what the page says is what the commands say."""

from __future__ import annotations

import re

import httpx

from fencepost.local import Stack
from producing.topics import Topics
from support.commands import here
from web.serving import page_with


def test_the_overview_has_the_brokers_and_the_controllers(web: httpx.Client, stack: Stack) -> None:
    found = web.get("/api/overview").json()
    assert [one["id"] for one in found["brokers"]] == [1, 2, 3]
    assert all(one["up"] for one in found["brokers"])
    assert [one["leads"] for one in found["quorum"]] == [True]
    page = web.get("/")
    assert page.status_code == 200
    assert found["cluster_id"] in page.text
    turned = web.get("/?sort=broker&dir=desc").text
    assert re.findall(r'data-label="broker"><strong>(\d)<', turned) == ["3", "2", "1"]


def test_a_topic_is_told_as_the_command_tells_it(web: httpx.Client, topics: Topics, stack: Stack) -> None:
    name = topics.make(partitions=2, config={"retention.ms": "86400000"})
    said = here("topic", "describe", name, "--bootstrap-server", stack.bootstrap_servers, "--format", "json").json
    found = web.get(f"/api/topics/{name}").json()
    assert found["topic"] == said
    assert found["min_in_sync"] == 2
    assert {"name": "retention.ms", "value": "86400000", "own": True} in found["settings"]
    assert found["findings"] == []
    assert "86400000" in web.get(f"/topics/{name}").text


def test_a_weak_topic_says_why(web: httpx.Client, topics: Topics) -> None:
    name = topics.make(partitions=1, replicas=1)
    (finding,) = web.get(f"/api/topics/{name}").json()["findings"]
    assert "a single broker holds" in finding["reason"]
    assert "min.insync.replicas 2" in web.get(f"/topics/{name}").text


def test_tables_are_found_and_sorted_by_the_address(web: httpx.Client, topics: Topics) -> None:
    one, other = sorted([topics.make(partitions=1), topics.make(partitions=5)])
    page = page_with(web, f"/topics?q={one}", f'href="/topics/{one}"')
    assert f'href="/topics/{other}"' not in page
    assert "No topic has that in its name" in web.get("/topics", params={"q": "no-such-topic"}).text
    assert 'aria-sort="descending"' in web.get("/topics?sort=partitions&dir=desc").text


def test_what_is_not_there_is_told_with_the_nearest_name(web: httpx.Client, topics: Topics) -> None:
    name = topics.make()
    answer = web.get(f"/api/topics/{name}x")
    assert answer.status_code == 404
    assert answer.json()["remedy"] == f"did you mean {name}?"
    assert web.get("/no-such-page").status_code == 404
    assert web.get("/topics/..%2F..").status_code in (400, 404)


def test_the_api_describes_itself(web: httpx.Client) -> None:
    paths = web.get("/api/openapi.json").json()["paths"]
    assert "/api/overview" in paths
    assert all(one["get"]["description"] for one in paths.values() if "get" in one)


def test_live_parts_come_as_events_to_each_browser(web: httpx.Client) -> None:
    with web.stream("GET", "/live/topics") as first, web.stream("GET", "/live/topics") as second:
        for stream in (first, second):
            assert stream.headers["content-type"].startswith("text/event-stream")
            lines = stream.iter_lines()
            assert next(lines) == "event: live"
            assert next(lines).startswith("data: ")
