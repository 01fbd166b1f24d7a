"""Who gets an answer from the real server, and what a browser is told to do with it."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from fencepost.local import Stack
from support.commands import apart
from web.serving import browser_of, served


def test_another_name_is_refused(web: httpx.Client) -> None:
    assert web.get("/api/topics", headers={"host": "rebound.example:9000"}).status_code == 421
    assert web.get("/api/topics", headers={"host": f"localhost:{web.base_url.port}"}).status_code == 200


def test_another_origin_is_refused(web: httpx.Client) -> None:
    assert web.get("/api/topics", headers={"origin": "https://evil.example"}).status_code == 403
    assert web.get("/api/topics", headers={"origin": "null"}).status_code == 403
    own = f"http://{web.base_url.host}:{web.base_url.port}"
    assert web.get("/api/topics", headers={"origin": own}).status_code == 200


def test_a_search_is_not_started_from_another_site(web: httpx.Client) -> None:
    foreign = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
    assert web.get("/events", params={"key": "a"}, headers=foreign).status_code == 403
    assert web.get("/topics", headers={**foreign, "sec-fetch-dest": "document"}).status_code == 200


def test_a_change_needs_the_token_and_the_origin(web: httpx.Client) -> None:
    own = f"http://{web.base_url.host}:{web.base_url.port}"
    (token,) = re.findall(r'data-token="([^"]+)"', web.get("/").text)
    path = "/api/transactions/abort"
    assert web.post(path, json={}, headers={"origin": own}).status_code == 403
    assert web.post(path, json={}, headers={"x-fencepost-token": token}).status_code == 403
    assert web.post(path, json={}, headers={"origin": own, "x-fencepost-token": "x" * len(token)}).status_code == 403
    assert web.put(path, headers={"origin": own, "x-fencepost-token": token}).status_code == 405


def test_nothing_is_loaded_from_elsewhere(web: httpx.Client) -> None:
    page = web.get("/")
    policy = page.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert loaded
    assert not [one for one in loaded if urlsplit(one).netloc]
    assert "<style" not in page.text
    assert not re.search(r"<script(?![^>]*\bsrc=)", page.text)
    assert not re.search(r"\s(?:style|on\w+)=", page.text)
    for one in {name for name in loaded if name.startswith("/static/")}:
        assert web.get(one).status_code == 200, one


def test_a_read_only_server_changes_nothing(stack: Stack, tmp_path: Path) -> None:
    with (
        served("--bootstrap-server", stack.bootstrap_servers, folder=tmp_path) as address,
        browser_of(address, origin=address) as client,
    ):
        page = client.get("/").text
        assert "data-token" not in page
        assert client.post("/api/transactions/abort", json={}).status_code == 403


def test_a_password_is_asked_for_and_never_shown(stack: Stack, tmp_path: Path) -> None:
    word = "canary-of-the-page"
    told = {"FENCEPOST_WEB_PASSWORD": word}
    with (
        served("--bootstrap-server", stack.bootstrap_servers, folder=tmp_path, env=told) as address,
        browser_of(address) as client,
    ):
        assert client.get("/").status_code == 401
        assert client.get("/static/page.css").status_code == 401
        assert client.get("/api/topics", auth=("who", "ever")).status_code == 401
        page = client.get("/", auth=("who", word))
        assert page.status_code == 200
        assert word not in page.text
    assert word not in (tmp_path / "web.err").read_text()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.org"])  # noqa: S104 (refused)
def test_other_hosts_need_a_password(host: str, stack: Stack) -> None:
    ended = apart("web", "--host", host, "--bootstrap-server", stack.bootstrap_servers)
    assert ended.code == 2
    assert "password" in ended.complaint


def test_a_password_file_that_others_can_read_is_refused(stack: Stack, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("canary-of-the-page\n")
    file.chmod(0o644)
    ended = apart("web", "--password-file", file, "--bootstrap-server", stack.bootstrap_servers)
    assert ended.code == 2
    assert "chmod 600" in ended.complaint
    assert "canary" not in ended.complaint


@pytest.mark.parametrize("dsn", ["postgresql://u:canary@h/db", "host=h password=canary", "not a = dsn ==="])
def test_a_password_among_the_options_is_refused(dsn: str, stack: Stack) -> None:
    ended = apart("web", "--dsn", dsn, "--bootstrap-server", stack.bootstrap_servers)
    assert ended.code == 2
    assert "canary" not in ended.complaint
