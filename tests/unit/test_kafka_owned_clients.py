"""The driver's clients are gone when ours are closed, whoever still refers to those; and no error stays with them."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer

from fencepost.engines.python.group_consumer import GroupConsumer
from fencepost.kafka.log import librdkafka_log
from fencepost.kafka.owned_consumer import OwnedConsumer
from fencepost.kafka.producer import Client
from fencepost.kafka.standalone_consumer import StandaloneConsumer
from support.clients import living, without_the_collector

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}
OFTEN = {**NOBODY, "group.id": "g", "statistics.interval.ms": 10}


class Broken(Exception):
    """Of a callback."""


@pytest.fixture(autouse=True)
def _without_the_collector() -> Iterator[None]:
    with without_the_collector():
        yield


def _standalone() -> StandaloneConsumer:
    return StandaloneConsumer(NOBODY, "g")


def _member() -> GroupConsumer:
    return GroupConsumer({**NOBODY, "group.id": "g"}, lambda *_: None, librdkafka_log)


def _producer() -> Client:
    return Client({**NOBODY, "statistics.interval.ms": 1000})


@pytest.mark.parametrize("make", [_standalone, _member, _producer])
def test_a_client_that_was_closed_is_gone_though_its_owner_is_not(make: Callable[[], Any]) -> None:
    before = living()
    client = make()
    assert living() == before + 1
    client.close()
    assert living() == before
    client.close()  # harmless


def _poll(consumer: OwnedConsumer | Consumer) -> weakref.ref[Broken]:
    """Until a callback has raised; its error."""
    try:
        while True:
            consumer.poll(0.1)
    except Broken as error:
        return weakref.ref(error)


def _raising(*_told: object) -> None:
    raise Broken


def test_what_a_callback_raises_is_raised_behind_the_call_and_kept_by_nobody() -> None:
    consumer = OwnedConsumer(OFTEN, librdkafka_log, stats_cb=_raising)
    assert _poll(consumer)() is None
    consumer.close()


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="there the driver gives its reference back")
def test_control_the_driver_keeps_what_is_raised_through_it() -> None:
    consumer = Consumer({**OFTEN, "stats_cb": _raising}, logger=librdkafka_log)
    kept = _poll(consumer)
    consumer.close()
    del consumer
    assert isinstance(kept(), Broken)
