"""A transaction that really hangs: its records are in the log, and no coordinator was ever told of the partition.

As a producer of before Kafka 3.6 left one behind, when its request came late. Newer brokers ask the coordinator first,
unless they are told not to.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from fencepost.kafka.client import Cluster
from fencepost.kafka.layout import leaders
from fencepost.kafka.open_transactions import open_producers
from fencepost.kafka.wire import Wire
from fencepost.model import TopicPartition

_ASKS = "transaction.partition.verification.enable"


@contextmanager
def unverified(kafka: Mapping[str, str]) -> Iterator[None]:
    """Brokers take records of transactions that no coordinator knows; as before when the block ends."""
    with Cluster(kafka) as cluster:
        _set(cluster, AlterConfigOpType.SET)
        try:
            yield
        finally:
            _set(cluster, AlterConfigOpType.DELETE)


def _set(cluster: Cluster, what: AlterConfigOpType) -> None:
    for broker in cluster.brokers():
        entry = ConfigEntry(_ASKS, "false", incremental_operation=what)
        resource = ConfigResource(ResourceType.BROKER, str(broker), incremental_configs=[entry])
        cluster.admin.incremental_alter_configs([resource])[resource].result(30)


def hang(kafka: Mapping[str, str], topic: str, partition: int = 0) -> int:
    """Gives the id of the producer that nobody will hear of again."""
    from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest
    from kafka.record.default_records import DefaultRecordBatchBuilder

    at = TopicPartition(topic, partition)
    with unverified(kafka), Wire(kafka) as wire:
        leader = leaders(wire, [at])[at]
        began = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000, max_version=2)
        deadline = time.monotonic() + 20
        while (given := wire.send({leader: began}, "a producer id")[leader]).error_code:
            assert time.monotonic() < deadline, f"no producer id: error {given.error_code}"
            time.sleep(0.1)
        batch = DefaultRecordBatchBuilder(2, 0, True, given.producer_id, given.producer_epoch, 0, 1 << 20)
        batch.append(0, int(time.time() * 1000), b"k", b"hangs", [])
        data = ProduceRequest.TopicProduceData
        sent = ProduceRequest(
            transactional_id="nobody",
            acks=-1,
            timeout_ms=30_000,
            topic_data=[
                data(
                    name=topic,
                    partition_data=[data.PartitionProduceData(index=partition, records=bytes(batch.build()))],
                )
            ],
            max_version=10,
        )
        deadline = time.monotonic() + 20
        while code := wire.send({leader: sent}, "a record")[leader].responses[0].partition_responses[0].error_code:
            assert time.monotonic() < deadline, f"the broker still asks the coordinator: error {code}"
            time.sleep(0.1)
        seen = [(one.producer_id, one.start_offset) for one in open_producers(wire, [at])]
    assert given.producer_id in dict(seen), f"it is not open there: {seen}, but {given.producer_id} wrote"
    return int(given.producer_id)
