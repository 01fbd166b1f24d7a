"""What a consumer is asked to do, checked before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from fencepost.engines.python.commits import Commit
from fencepost.errors import UnsupportedGuarantee, Usage
from fencepost.guarantee import Guarantee
from fencepost.kafka.config.settings import librdkafka_settings
from fencepost.kafka.names import require_group, require_identity, require_topic
from fencepost.kafka.offsets import Start
from fencepost.rules.findings import require
from fencepost.rules.reader import reader_findings

COMMITTED = "committed"  # a start: only where the group has been before
_NEVER = ("auto.commit.enable", "topic.blacklist")  # commits what was read; topics that are not seen are not read
SESSION_MS = 45_000  # the default of the driver, and of the brokers
QUEUE_KBYTES = 4 * 1024  # read ahead by the driver, which needs 300 bytes more for each; its own 64 MiB are no faster
ANSWER_MS = 20_000  # the longest that a commit is waited for, when partitions are asked back too; librdkafka's is 60 s


class Per(StrEnum):
    """How much is processed, and committed, at once."""

    RECORD = "record"
    BATCH = "batch"


@dataclass(frozen=True)
class ConsumerSettings:
    """One member of a group."""

    kafka: Mapping[str, str] = field(repr=False)
    topic: str
    group: str
    guarantee: Guarantee
    commit: Commit = Commit.SYNC
    per: Per | float = Per.BATCH  # seconds: batches, committed when the last commit is so old
    start: Start = "earliest"  # where the group has no position yet
    batch: int = 500
    retries: int = 3  # of a handler that fails
    revoke_seconds: float = 10.0  # for the current batch, when its partitions are revoked
    skip_gone: bool = False  # records that are gone before they were read are skipped, and reported
    also: tuple[str, ...] = ()  # further topics
    pipeline: str = ""  # of which pipeline it is a member: under that name the sink keeps its positions

    def __post_init__(self) -> None:
        object.__setattr__(self, "commit", Commit(self.commit))  # words are as good as the enum's members
        object.__setattr__(self, "guarantee", Guarantee(self.guarantee))
        early = self.commit is not Commit.AUTO and isinstance(self.per, Per)
        if self.guarantee is Guarantee.AT_MOST_ONCE and not early:
            raise UnsupportedGuarantee(
                self.guarantee,
                "processing would start before the commit is answered, so a crash between the two repeats",
                Guarantee.AT_LEAST_ONCE,
                "commit sync or async, per record or per batch",
            )
        require(self.guarantee, reader_findings(self.kafka))
        require_identity("group.id", require_group(self.group))
        for topic in self.topics:
            require_topic(topic)
        if self.batch < 1:
            raise Usage(f"batch {self.batch}", "give 1 or more")

    @property
    def topics(self) -> tuple[str, ...]:
        """All that are read."""
        return (self.topic, *self.also)

    @property
    def ledger(self) -> str:
        """Under which name a sink keeps the positions."""
        return self.pipeline or self.group

    @property
    def session_seconds(self) -> float:
        """After how long the group misses a member that says nothing; under KIP-848 the brokers decide that."""
        return float(self.kafka.get("session.timeout.ms", SESSION_MS)) / 1000

    @property
    def every(self) -> float:
        """Seconds between two commits."""
        if isinstance(self.per, float):
            return self.per
        return float(self.kafka.get("auto.commit.interval.ms", 5000)) / 1000 if self.commit is Commit.AUTO else 0.0

    def librdkafka(self) -> dict[str, Any]:
        given = librdkafka_settings(self.kafka)
        fixed = {
            "group.id": self.group,
            "enable.auto.commit": False,  # librdkafka's commits what was read, and in an order that nobody sees
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",  # never a silent jump
            "enable.partition.eof": True,
        }
        for name in _NEVER:
            if name in given:
                raise Usage(f"{name}={given[name]} would break {self.guarantee}", "remove it")
        for name, value in fixed.items():
            if name in given and str(given[name]).lower() != str(value).lower():
                raise Usage(f"{name}={given[name]} would break {self.guarantee}", f"remove it: it is {value} here")
        usual = {
            "isolation.level": "read_committed",
            "socket.timeout.ms": ANSWER_MS,
            "fetch.queue.backoff.ms": 10,  # librdkafka's own second makes whoever reads fast wait most of the time
            "queued.max.messages.kbytes": QUEUE_KBYTES,
        }
        if given.get("group.protocol") != "consumer":
            usual["partition.assignment.strategy"] = "cooperative-sticky"
        return {**usual, **given, **fixed}

    @property
    def incremental(self) -> bool:
        """Do partitions come and go one by one? Else all of them at once."""
        given = librdkafka_settings(self.kafka)
        strategy = given.get("partition.assignment.strategy", "cooperative-sticky")
        return given.get("group.protocol") == "consumer" or strategy == "cooperative-sticky"
