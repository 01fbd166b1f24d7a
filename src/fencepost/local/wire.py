"""A few questions to one broker, each on a socket of its own.

A client library finds its own way around a cluster and tries again by itself; to know whether a start is
complete one must hear what each broker says, and when.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field

from fencepost.local.ports import HOST

NONE, TRANSACTIONAL_ID_NOT_FOUND = 0, 105
GROUP, TRANSACTION = 0, 1
_PATIENCE = 3  # seconds
_METADATA, _FIND_COORDINATOR, _CREATE_TOPICS, _DESCRIBE_TRANSACTIONS = 3, 10, 19, 65


class NoAnswer(Exception):
    """The broker could not be asked, or broke off."""


@dataclass(frozen=True)
class Partition:
    topic: str
    number: int
    leader: int  # -1: none
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True)
class Metadata:
    """What one broker knows of the cluster."""

    brokers: frozenset[int]  # registered and not fenced
    partitions: tuple[Partition, ...]


@dataclass
class _Reader:
    data: bytes
    at: int = field(default=0)

    def number(self, form: str) -> int:
        try:
            (value,) = struct.unpack_from(f">{form}", self.data, self.at)
        except struct.error as error:
            raise NoAnswer("what listens there does not speak Kafka's protocol") from error
        self.at += struct.calcsize(f">{form}")
        return int(value)

    def text(self) -> str:
        size = self.number("h")
        self.at += max(size, 0)
        return self.data[self.at - size : self.at].decode() if size > 0 else ""

    def integers(self) -> tuple[int, ...]:
        return tuple(self.number("i") for _ in range(self.number("i")))


def metadata(port: int) -> Metadata:
    """Brokers and partitions, internal topics too."""
    reader = _ask(port, _METADATA, 1, struct.pack(">i", -1))
    brokers = set()
    for _ in range(reader.number("i")):
        brokers.add(reader.number("i"))
        reader.text(), reader.number("i"), reader.text()  # host, port, rack
    reader.number("i")  # controller
    partitions: list[Partition] = []
    for _ in range(reader.number("i")):
        reader.number("h")
        topic, _internal = reader.text(), reader.number("b")
        partitions.extend(_partition(topic, reader) for _ in range(reader.number("i")))
    return Metadata(frozenset(brokers), tuple(partitions))


def _partition(topic: str, reader: _Reader) -> Partition:
    reader.number("h")
    return Partition(topic, reader.number("i"), reader.number("i"), reader.integers(), reader.integers())


def can_create(port: int, replicas: int) -> bool:
    """Would the controller create a topic with so many replicas now? Nothing is created."""
    topic = _text("fencepost-can-create") + struct.pack(">ihii", 1, replicas, 0, 0)
    reader = _ask(port, _CREATE_TOPICS, 4, struct.pack(">i", 1) + topic + struct.pack(">i?", _PATIENCE * 1000, True))
    reader.number("i"), reader.number("i"), reader.text()  # throttle, one topic, its name
    return reader.number("h") == NONE


def coordinator(port: int, key: str, kind: int) -> int | None:
    """The node that coordinates this group or transactional id. Asking makes the broker create the internal topic."""
    reader = _ask(port, _FIND_COORDINATOR, 1, _text(key) + struct.pack(">b", kind))
    reader.number("i")
    error, _message, node = reader.number("h"), reader.text(), reader.number("i")
    return node if error == NONE else None


def coordinates(port: int, transactional_id: str) -> bool:
    """Has this broker loaded the transactions that this id belongs to?"""
    body = bytes([2, len(transactional_id) + 1]) + transactional_id.encode() + b"\0"
    reader = _ask(port, _DESCRIBE_TRANSACTIONS, 0, body, flexible=True)
    reader.number("i"), reader.number("b")  # throttle, one entry
    return reader.number("h") in {NONE, TRANSACTIONAL_ID_NOT_FOUND}


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def _ask(port: int, api: int, version: int, body: bytes, *, flexible: bool = False) -> _Reader:
    tags = b"\0" if flexible else b""
    request = struct.pack(">hhi", api, version, 1) + _text("fencepost") + tags + body
    try:
        with socket.create_connection((HOST, port), timeout=2) as connection:
            connection.settimeout(_PATIENCE)
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", _read(connection, 4))
            answer = _read(connection, size)
    except OSError as error:
        raise NoAnswer(f"port {port}: {error}") from error
    return _Reader(answer, at=4 + len(tags))


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        block = connection.recv(size - len(data))
        if not block:
            raise NoAnswer("the connection was closed")
        data += block
    return data
