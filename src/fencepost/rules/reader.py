"""Settings of Kafka's and of Spark's that limit the way from the topic to the reader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fencepost.guarantee import Guarantee
from fencepost.rules.findings import ALL, MAY_LOSE, Finding, Hop

# Settings of Kafka's and of Spark's, in whatever block they are written: value, what would happen, what to do
_PITFALLS: Mapping[str, tuple[str | None, str, str, frozenset[Guarantee]]] = {
    "minpartitions": (
        None,
        "several tasks would read parts of one Kafka partition, and none of them could move its position",
        "remove it: one task reads one partition; add partitions to the topic",
        frozenset(),
    ),
    "maxrecordsperpartition": (
        None,
        "several tasks would read parts of one Kafka partition, and none of them could move its position",
        "remove it, and set batch.records",
        frozenset(),
    ),
    "asyncprogresstrackingenabled": (
        "true",
        "Spark would store its progress at other times than the batches'",
        "remove it: positions are not read from Spark's checkpoint",
        frozenset(),
    ),
    "failondataloss": (
        "false",
        "records deleted before they were read would be skipped",
        "remove it; after a loss, choose where to continue with `fencepost positions set`",
        MAY_LOSE,
    ),
    "isolation.level": (
        "read_uncommitted",
        "records of transactions that were aborted would reach the sink",
        "remove it: only committed records are read",
        frozenset(),
    ),
    "spark.speculation": (
        "true",
        "two attempts of one task would block each other",
        "remove it: a failed task is retried, and the fence decides what landed",
        frozenset(),
    ),
}


def reader_findings(settings: Mapping[str, str]) -> Iterator[Finding]:
    """What of the settings limits the way from the topic to the reader."""
    for name, value in settings.items():
        plain = name.strip().lower().removeprefix("kafka.")
        bad, reason, remedy, possible = _PITFALLS.get(plain, ("", "", "", ALL))
        if plain in _PITFALLS and (bad is None or str(value).strip().lower() == bad):
            yield Finding(Hop.READER, f"{name}={value}: {reason}", remedy, possible)
