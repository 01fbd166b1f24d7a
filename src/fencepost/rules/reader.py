"""Settings of Kafka's and of Spark's that limit the way from the topic to the reader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

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


_ISOLATION = "kafka.isolation.level"
_IN_A_STREAM = {  # what to do in a stream of one's own
    "minPartitions": "remove the option: one task reads one partition; add partitions to the topic",
    "maxRecordsPerPartition": "remove the option, and set maxOffsetsPerTrigger",
    "asyncProgressTrackingEnabled": "remove the option",
    "failOnDataLoss": "remove the option; after a loss, continue from fencepost.spark.starting_offsets(...)",
    _ISOLATION: f'set .option("{_ISOLATION}", "read_committed") on readStream',
    "spark.speculation": 'set .config("spark.speculation", "false") on the session',
}


def stream_findings(settings: Mapping[str, str]) -> Iterator[Finding]:
    """The same for somebody's own stream, of a session's settings or of a source's, as far as they are named."""
    for name, remedy in _IN_A_STREAM.items():
        found = {key: value for key, value in settings.items() if key.lower() == name.lower()}
        for finding in reader_findings(found):
            yield replace(finding, remedy=remedy)


def source_findings(options: Mapping[str, str]) -> Iterator[Finding]:
    """Of the options of Spark's Kafka source, which reads what is not committed unless it is told otherwise."""
    named = {key.lower() for key in options}
    unsaid = {} if _ISOLATION in named else {_ISOLATION: "read_uncommitted"}
    yield from stream_findings({**options, **unsaid})
