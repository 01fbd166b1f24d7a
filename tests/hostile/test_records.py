"""Records as anybody may send them: every one is shown once, exactly, and none of them steers a terminal."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from fencepost.local import Stack
from hostile.commands import Command
from support.hostile import HEADERS, KEYS, TIMESTAMPS, VALUES


def send_all(
    stack: Stack, topic: str, times: Iterable[int] = TIMESTAMPS.values()
) -> list[tuple[bytes | None, bytes | None]]:
    """Every hostile value, key, header and time: what was sent, by offset."""
    producer = Producer({"bootstrap.servers": stack.bootstrap_servers, "message.max.bytes": 2_000_000})
    sent: list[tuple[bytes | None, bytes | None]] = []

    def arrived(error: KafkaError | None, _message: Message) -> None:
        assert error is None, error

    def send(value: bytes | None, key: bytes | None = None, **more: Any) -> None:
        producer.produce(topic, value, key, partition=0, on_delivery=arrived, **more)
        sent.append((value, key))

    for value in VALUES.values():
        send(value, b"k")
    for key in KEYS.values():
        send(b"v", key)
    for headers in HEADERS.values():
        send(b"v", headers=list(headers))
    for timestamp in times:
        send(b"v", timestamp=timestamp)
    assert producer.flush(60) == 0
    return sent


def exact(shown: str | dict[str, str] | None) -> bytes | None:
    if isinstance(shown, dict):
        return base64.b64decode(shown["base64"])
    return None if shown is None else shown.encode()


def test_consume_shows_every_record_exactly_and_once(stack: Stack, topic: str, fencepost: Command) -> None:
    sent = send_all(stack, topic)
    where = ["--bootstrap-server", stack.bootstrap_servers, "--topic", topic, "--group", topic]
    done = fencepost("consume", *where, "--once").require_clean(0)
    shown = done.lines()
    assert [(exact(one["value"]), exact(one["key"])) for one in shown] == sent
    assert [one["offset"] for one in shown] == list(range(len(sent)))
    headers = {name: one["headers"] for name, one in zip(HEADERS, shown[len(VALUES) + len(KEYS) :], strict=False)}
    assert headers["twice"] == {"h": ["1", "2"]}
    assert headers["null value"] == {"h": None}
    assert fencepost("consume", *where, "--once").require_clean(0).out == ""
