"""What is refused, as a table for the docs: `python -m fencepost.rules.refusals`. The rules say every row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fencepost.guarantee import Guarantee
from fencepost.model import Merge, Mode
from fencepost.rules.findings import Finding
from fencepost.rules.reader import reader_findings
from fencepost.rules.sinks import Capabilities, WritePath, merge_findings, sink_findings
from fencepost.rules.topics import TopicFacts, loop_findings, topic_findings

_PARTITION = frozenset({WritePath.DIRECT})
_UPSERT = Merge(Mode.UPSERT, ("id",))
_SETTINGS = {
    "minPartitions": "8",
    "maxRecordsPerPartition": "1000",
    "asyncProgressTrackingEnabled": "true",
    "failOnDataLoss": "false",
    "isolation.level": "read_uncommitted",
    "spark.speculation": "true",
}


def examples() -> Iterator[tuple[str, Iterable[Finding]]]:
    """A combination, and what the rules find in it."""
    yield "a sink that may forget", sink_findings(Capabilities("stdout", _PARTITION, atomic=False, durable=False))
    yield "a sink without positions", sink_findings(Capabilities("http", _PARTITION, atomic=False))
    yield "replication factor 1", topic_findings(TopicFacts("orders", 1, 1))
    yield "`min.insync.replicas` above the replicas", topic_findings(TopicFacts("orders", 2, 3))
    yield "unclean leader election", topic_findings(TopicFacts("orders", 3, 2, unclean_leader_election=True))
    yield "upsert without provenance or `order_by`", merge_findings(_UPSERT, provenance=False)
    yield "`tombstones: delete`", merge_findings(Merge(Mode.UPSERT, ("id",), deletes=True), provenance=True)
    for name, value in _SETTINGS.items():
        yield f"`{name}: {value}`", reader_findings({name: value})
    yield "reading and writing one topic", loop_findings(["orders"], ["orders"])


def table() -> str:
    """In Markdown."""
    lines = ["| what | why not | what can be had | what to do |", "| --- | --- | --- | --- |"]
    for what, findings in examples():
        lines += [f"| {what} | {one.reason} | {_possible(one)} | {one.remedy} |" for one in findings]
    return "\n".join(lines) + "\n"


def _possible(finding: Finding) -> str:
    return ", ".join(word.value for word in Guarantee if word in finding.possible) or "nothing"


if __name__ == "__main__":
    print(table(), end="")  # noqa: T201 (for the docs)
