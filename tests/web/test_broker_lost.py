"""A broker is killed and comes back, and then all of them go: the page says so, and goes on by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.local import Stack
from producing.topics import Topics
from web.serving import browser_of, page_with, served, without


@pytest.mark.timeout(600)
def test_a_broker_is_killed_and_comes_back(stack: Stack, topics: Topics, tmp_path: Path) -> None:
    name = topics.make(partitions=3)
    lost = stack.node("broker-2")
    with (
        served("--bootstrap-server", stack.bootstrap_servers, folder=tmp_path) as address,
        browser_of(address) as client,
    ):
        page_with(client, "/topics", name)
        lost.kill()
        try:
            page = page_with(client, "/", f"broker {lost.node_id} is down")
            assert "Needs attention" in page
            page_with(client, f"/topics/{name}", "under-replicated")  # the overview has but the first of many
            found = client.get(f"/api/topics/{name}").json()
            assert all(one["leader"] != lost.node_id for one in found["topic"]["partitions"])
        finally:
            lost.restart()
            stack.wait_in_sync()
        without(client, "/", f"broker {lost.node_id} is down")
        without(client, f"/topics/{name}", "under-replicated")


def test_where_nobody_answers_that_is_what_the_page_says(tmp_path: Path) -> None:
    with served("--bootstrap-server", "127.0.0.1:1", folder=tmp_path) as address, browser_of(address) as client:
        page = client.get("/")
        assert page.status_code == 503
        assert "Nobody answers" in page.text
        answer = client.get("/api/topics")
        assert answer.status_code == 503
        assert answer.json()["error"] == "Unreachable"
