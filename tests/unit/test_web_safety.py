"""Hosts, origins and passwords, without a server."""

from __future__ import annotations

import pytest

from fencepost.errors import Usage
from fencepost.web.safety import given_password, in_the_background, known_host, same_origin
from fencepost.web.server import Serving, is_loopback


@pytest.mark.parametrize(
    "host", ["127.0.0.1:9000", "localhost", "LOCALHOST:80", "[::1]:9000", "10.0.0.7:9000", "kafka.lan:1"]
)
def test_addresses_and_given_names_are_known(host: str) -> None:
    assert known_host([host], {"kafka.lan"})


@pytest.mark.parametrize(
    "hosts",
    [
        [],
        [""],
        ["evil.example"],
        ["127.0.0.1.evil.example:9000"],
        ["localhost.evil.example"],
        ["evil.example@127.0.0.1.x"],
        ["[::1"],
        ["127.0.0.1", "evil.example"],
    ],
)
def test_other_names_are_not(hosts: list[str]) -> None:
    assert not known_host(hosts, {"kafka.lan"})


@pytest.mark.parametrize(
    "origin", ["null", "https://evil.example", "http://127.0.0.1:9001", "file://", "127.0.0.1:9000", ""]
)
def test_other_origins_are_refused(origin: str) -> None:
    assert not same_origin([origin], "127.0.0.1:9000", needed=False)


def test_a_change_needs_an_origin() -> None:
    assert same_origin([], "127.0.0.1:9000", needed=False)
    assert not same_origin([], "127.0.0.1:9000", needed=True)
    assert same_origin(["http://127.0.0.1:9000"], "127.0.0.1:9000", needed=True)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("dest", ["image", "iframe", "script", "empty", ""])
def test_pages_of_other_sites_ask_nothing_in_the_background(site: str, dest: str) -> None:
    assert in_the_background({"sec-fetch-site": site, "sec-fetch-dest": dest})


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"sec-fetch-site": "same-origin", "sec-fetch-dest": "empty"},
        {"sec-fetch-site": "none", "sec-fetch-dest": "document"},
        {"sec-fetch-site": "cross-site", "sec-fetch-dest": "document"},
    ],
)
def test_links_scripts_of_ours_and_what_is_no_browser_may_ask(headers: dict[str, str]) -> None:
    assert not in_the_background(headers)


def test_a_password_is_read_whoever_the_user_is() -> None:
    assert given_password("Basic YWJjOmQ6ZQ==") == b"d:e"
    assert given_password("basic OnB3") == b"pw"
    assert given_password("Basic \u00e9!") == b""
    assert given_password("Bearer x") is None
    assert given_password("") is None


def test_hosts_that_others_reach_need_a_password() -> None:
    assert is_loopback("127.8.8.8")
    assert is_loopback("::1")
    with pytest.raises(Usage, match="password"):
        Serving(host="192.168.1.1")
    with pytest.raises(Usage, match="too short"):
        Serving(password="short")  # noqa: S106
    assert Serving(host="192.168.1.1", password="long enough").safety.changes is False  # noqa: S106


def test_nothing_shows_the_password() -> None:
    assert "canary" not in repr(Serving(password="canary-canary"))  # noqa: S106
    assert "canary" not in repr(Serving(password="canary-canary").safety)  # noqa: S106
