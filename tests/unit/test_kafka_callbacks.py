"""Clients that are done with are gone at once: no cycle keeps them until Python's collector comes by."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from fencepost.engines.python.group_consumer import GroupConsumer
from fencepost.kafka.callbacks import weakly
from fencepost.kafka.log import librdkafka_log
from fencepost.kafka.producer import Client
from fencepost.kafka.standalone_consumer import StandaloneConsumer

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.fixture(autouse=True)
def _without_the_collector() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _group_consumer() -> GroupConsumer:
    return GroupConsumer({**NOBODY, "group.id": "g"}, lambda *_: None, librdkafka_log)


@pytest.mark.parametrize(
    "make",
    [lambda: StandaloneConsumer(NOBODY, "g"), _group_consumer, lambda: Client(NOBODY)],
    ids=["standalone", "member", "producer"],
)
def test_a_client_that_was_closed_is_gone_with_its_last_reference(make: Callable[[], Any]) -> None:
    client = make()
    gone = weakref.ref(client)
    with suppress(AttributeError):
        client.close()
    del client
    assert gone() is None


def test_who_is_gone_is_not_called() -> None:
    heard: list[int] = []

    class Owner:
        def hear(self, number: int) -> None:
            heard.append(number)

    owner = Owner()
    call = weakly(owner.hear)
    call(1)
    del owner
    call(2)
    assert heard == [1]
