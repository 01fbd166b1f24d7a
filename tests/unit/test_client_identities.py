"""Names by which brokers know a client. librdkafka drops white space at the beginning: that is somebody else's name."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer

from fencepost import Producer
from fencepost.engines.python.settings import ConsumerSettings
from fencepost.errors import Usage
from fencepost.guarantee import Guarantee
from fencepost.kafka.names import require_identity
from fencepost.kafka.standalone_consumer import StandaloneConsumer

KAFKA = {"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}
DROPPED = [" orders", "\torders", "\norders", "\v\f\rorders"]
KEPT = ["orders", "orders ", "or ders", "\u00a0orders", "\x1forders"]


def known_as(group: str) -> bytes:
    consumer = Consumer({**KAFKA, "group.id": group})
    try:
        metadata: bytes = consumer.consumer_group_metadata()
        return metadata
    finally:
        consumer.close()


@pytest.mark.parametrize("name", DROPPED)
def test_the_driver_drops_it_and_so_it_is_refused(name: str) -> None:
    assert known_as(name) == known_as("orders")
    with pytest.raises(Usage, match="white space"):
        require_identity("group.id", name)


@pytest.mark.parametrize("name", KEPT)
def test_the_driver_keeps_any_other(name: str) -> None:
    assert name.encode() in known_as(name)
    assert require_identity("group.id", name) == name


@pytest.mark.parametrize("name", [" orders", " ", "\t", ""])
def test_nobody_becomes_another_client(name: str) -> None:
    with pytest.raises(Usage):
        ConsumerSettings(KAFKA, "t", name, Guarantee.EXACTLY_ONCE)
    with pytest.raises(Usage):
        StandaloneConsumer(KAFKA, name)
    with pytest.raises(Usage):
        Producer("t", "exactly-once", KAFKA, transactional_id=name)
