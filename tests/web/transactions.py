"""Transactions that tests begin, and leave open for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from confluent_kafka import Producer


@contextmanager
def transaction(servers: str, topic: str, records: int = 3, id_: str = "", partition: int = 0) -> Iterator[Producer]:
    """Open inside the block, with its records delivered; aborted at its end unless it was ended there."""
    settings = {"bootstrap.servers": servers, "transactional.id": id_ or f"txn-{uuid4().hex}", "linger.ms": 0}
    producer = Producer(settings)
    producer.init_transactions(60)
    producer.begin_transaction()
    for number in range(records):
        producer.produce(topic, f"{number}", key=f"k{number}", partition=partition)
    assert producer.flush(30) == 0
    ended = False
    try:
        yield producer
    except _Ended:
        ended = True
    finally:
        if not ended:
            producer.abort_transaction(60)


class _Ended(Exception):
    pass


def commit(producer: Producer) -> None:
    """And leave the block."""
    producer.commit_transaction(60)
    raise _Ended


def written(servers: str, topic: str, *records: tuple[object, object], partition: int = 0) -> None:
    """Plain records: (key, value)."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, "message.max.bytes": 1_000_000})
    for key, value in records:
        producer.produce(topic, value, key=key, partition=partition)  # type: ignore[arg-type]
    assert producer.flush(30) == 0
