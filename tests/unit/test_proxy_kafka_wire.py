"""What the proxy reads of a Kafka request: the client id, and whether a broker will answer."""

from __future__ import annotations

import pytest

from fencepost.lab.proxy.kafka import REQUEST, SIZE_FIELD, Api, client_id, is_answered

NO_TAGS = b"\0"
ONE_TAG = b"\x01\x00\x81\x01" + b"x" * 129  # one field, number 0, 129 bytes
LEADER, NOBODY = b"\x00\x01", b"\x00\x00"


def request(api: int, version: int, body: bytes, client: str | None = "orders") -> bytes:
    name = (client or "").encode()
    length = -1 if client is None else len(name)
    size = REQUEST.size - SIZE_FIELD + len(name) + len(body)
    return REQUEST.pack(size, api, version, 7, length) + name + body


@pytest.mark.parametrize(("given", "read"), [("orders", "orders"), ("", ""), (None, ""), ("zürich", "zürich")])
def test_the_client_id_is_read_and_may_be_missing(given: str | None, read: str) -> None:
    assert client_id(request(Api.FETCH, 12, b"\0" * 40, given)) == read


@pytest.mark.parametrize(
    ("version", "before_acks"),
    [
        (2, b""),
        (3, b"\xff\xff"),
        (8, b"\x00\x02t1"),
        (9, NO_TAGS + b"\x00"),
        (9, NO_TAGS + b"\x03t1"),
        (12, ONE_TAG + b"\x00"),
        (12, NO_TAGS + b"\x81\x01" + b"t" * 128),
    ],
)
@pytest.mark.parametrize("client", ["orders", None])
def test_only_a_produce_that_waits_for_nobody_is_not_answered(
    version: int, before_acks: bytes, client: str | None
) -> None:
    rest = b"\x00\x00\x05\xdc"  # the timeout
    assert is_answered(request(Api.PRODUCE, version, before_acks + LEADER + rest, client))
    assert not is_answered(request(Api.PRODUCE, version, before_acks + NOBODY + rest, client))


def test_every_other_request_is_answered() -> None:
    assert is_answered(request(Api.FETCH, 12, b"\0" * 40))


def test_a_request_cut_short_is_read_without_an_error() -> None:
    assert is_answered(request(Api.PRODUCE, 9, b""))
