"""What a Kafka sink must know, and the producer's settings that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.errors import Usage
from fencepost.guarantee import Guarantee
from fencepost.kafka.config.producer import Declaration
from fencepost.kafka.limits import LONGEST_TRANSACTION, Limits
from fencepost.kafka.names import group_of
from fencepost.model import TopicPartition

# As long as brokers allow unless told otherwise (transaction.max.timeout.ms): a slow transform must not lose its batch.
# It costs little, because whoever takes a partition over ends what its predecessor left open at once. Only where
# nobody comes after a crash do readers of the target wait for so long.
TRANSACTION_TIMEOUT_MS = 15 * 60 * 1000
TIMEOUT = "transaction.timeout.ms"
COMPRESSION = "lz4"  # unless told otherwise: batches are large, and each replica has to get them
QUEUE_RECORDS = 500_000  # kilobytes limit it too: small records should not wait for each other
# Of the brokers that a client gets to know it connects to one after so long: the first of them has all the questions
RECONNECT_MS = 20
# Records wait for others so long, in which as many come as go well together: a third less work for client and brokers
# than with the usual 5 ms. The last ones wait too, so that it is nothing for a few.
LINGER_MS = 20
MANY = 10_000  # records of the source
STATISTICS_MS = (
    25  # how long a transaction may wait to learn whether the last one's end was repeated; each costs 0.1 ms
)


@dataclass(frozen=True)
class KafkaSettings:
    """What a writer must know; it crosses to Spark's workers."""

    kafka: Mapping[str, str] = field(repr=False)  # may hold a password
    pipeline: str
    topics: tuple[str, ...]  # the targets; the first is where an output goes that names none
    prefix: str = ""  # of the group and of the transactional ids, where the cluster's ACLs go by prefix
    ledger_group: str = ""  # the group that keeps the positions, where it is not the pipeline's own
    letters: str = ""  # the topic for dead letters, if there is one
    most_bad: int = 100  # records that are named at once
    longest_ms: int = 0  # what the brokers allow for a transaction; 0: not known yet

    def __post_init__(self) -> None:
        if not self.topics:
            raise Usage("a Kafka sink needs a topic to write to", "give at least one")
        any_id = Declaration.of(Guarantee.EXACTLY_ONCE, None, "any", delivery_reports=False)
        any_id.settings(self.kafka)  # refuses what breaks it

    def group(self, pipeline: str) -> str:
        """The consumer group that keeps the pipeline's positions."""
        return self.ledger_group or self.prefix + group_of(pipeline)

    def transactional_id(self, pipeline: str, source: TopicPartition) -> str:
        """The name under which one writer at a time writes what comes of this partition: the fence.

        Topics have no colons in their names, so no two partitions of any two pipelines share one.
        """
        return f"{self.prefix}{pipeline}:{source.topic}:{source.partition}"

    @property
    def transaction_ms(self) -> int:
        """How long a transaction may take before the brokers abort it."""
        usual = min(TRANSACTION_TIMEOUT_MS, self.longest_ms or TRANSACTION_TIMEOUT_MS)
        return int(self.kafka.get(TIMEOUT, usual))

    def within(self, limits: Limits | None) -> KafkaSettings:
        """The same on brokers with these limits; None: they do not say. Raises Usage for a time that is too long."""
        most = limits.transaction_ms if limits else TRANSACTION_TIMEOUT_MS
        known = replace(self, longest_ms=most)
        if limits is not None and known.transaction_ms > most:
            raise Usage(
                f"kafka: {TIMEOUT} is {known.transaction_ms}, but the brokers allow {most} ({LONGEST_TRANSACTION})",
                f"set it to {most} at most, or remove it",
            )
        return known

    def batching(self, records: int) -> dict[str, Any]:
        """What a producer is told besides, for a transaction over so many records of the source."""
        theirs = self.kafka.keys() & {"linger.ms", "queue.buffering.max.ms"}
        return {"linger.ms": LINGER_MS} if records >= MANY and not theirs else {}

    def producer(self, transactional_id: str) -> dict[str, Any]:
        """librdkafka's settings for one source partition's producer."""
        declared = Declaration.of(Guarantee.EXACTLY_ONCE, None, transactional_id, delivery_reports=False).settings(
            self.kafka
        )
        usual = {TIMEOUT: self.transaction_ms}
        if "queue.buffering.max.messages" not in self.kafka:
            declared |= {"queue.buffering.max.messages": QUEUE_RECORDS}
        if not self.kafka.keys() & {"reconnect.backoff.ms", "reconnect.backoff.max.ms"}:
            declared |= {"reconnect.backoff.ms": RECONNECT_MS}
        if not self.kafka.keys() & {"compression.type", "compression.codec"}:
            declared |= {"compression.type": COMPRESSION}
        return {**usual, **declared, "statistics.interval.ms": STATISTICS_MS}
