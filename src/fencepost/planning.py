"""What a run would do, said without moving anything: the guarantee hop by hop, the settings, the face, the start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from fencepost.cluster.client import Cluster
from fencepost.cluster.positions import TopicReader
from fencepost.cluster.topics import topic_facts
from fencepost.guarantee import Guarantee
from fencepost.model import Merge, Mode, TopicPartition
from fencepost.rules import (
    Face,
    choose_face,
    merge_findings,
    require,
    require_key,
    sink_findings,
    topic_findings,
)
from fencepost.sinks.postgres.columns import columns_for
from fencepost.sinks.postgres.reading import StoredPosition, reader, stored_positions
from fencepost.sinks.postgres.session import WRITER_SETTINGS
from fencepost.sinks.postgres.table import fit_columns
from fencepost.sinks.postgres.traits import TRAITS
from fencepost.spec import PipelineSpec, PostgresOptions

READER_WHY = {
    Guarantee.AT_MOST_ONCE: "each task moves its position first and writes then; a retry finds it moved and skips",
    Guarantee.AT_LEAST_ONCE: "each task writes first and moves its position then; a crash between repeats the span",
    Guarantee.EXACTLY_ONCE: "each task writes its span and moves the position in one transaction, by compare-and-set "
    "under its owner's token",
}

NO_PROVENANCE = (
    "the rows will not know where they came from (the transform drops _from, or provenance is off): "
    "the audit can check spans and rows per span, but not which record is missing"
)


PARTITIONS_ADDED = (
    "the topic has more partitions than when it was read last: a key may go to another one now, and across partitions "
    "the later commit wins; give order_by where that matters"
)


@dataclass(frozen=True)
class HopPlan:
    """One part of the way."""

    hop: str
    why: str  # the guarantee holds there


@dataclass(frozen=True)
class Plan:
    """Everything that `fencepost plan` says."""

    pipeline: str
    guarantee: str
    hops: list[HopPlan]
    settings: Mapping[str, str]
    face: str
    face_why: str
    columns: Mapping[str, str]
    table: str
    table_exists: bool | None = None  # None: not looked at
    resume: Mapping[str, int] | None = None
    waiting: int | None = None
    warnings: list[str] = field(default_factory=list)


def plan_pipeline(spec: PipelineSpec, offline: bool) -> Plan:
    """Raises what a run would raise before its first batch. Offline it looks at the file and the transform only."""
    from fencepost.spark.preview import preview

    seen = preview(spec)
    merge = spec.postgres.merge
    require_key(merge, seen.columns.names, seen.provenance)
    require(spec.guarantee, [*sink_findings(TRAITS), *merge_findings(merge, seen.provenance)])
    face = choose_face(TRAITS, seen.wide_node)
    plan = Plan(
        pipeline=spec.name,
        guarantee=spec.guarantee.value,
        hops=[
            HopPlan("topic to reader", "only committed records are read; records that are gone stop the run"),
            HopPlan("reader to sink", READER_WHY[spec.guarantee]),
            *([HopPlan("rows of one key", merge_why(merge, spec.guarantee))] if merge else []),
        ],
        settings={**seen.settings, **{f"postgresql {name}": value for name, value in WRITER_SETTINGS.items()}},
        face="direct" if face is Face.PARTITION else "staged",
        face_why="every node of the plan keeps Kafka's partitions apart: one task is one partition and one transaction",
        columns={column.name: column.type for column in columns_for(seen.columns)},
        table=spec.postgres.table,
        warnings=[] if seen.provenance else [NO_PROVENANCE],
    )
    return plan if offline else _against_the_world(spec, plan, seen.columns)


def merge_why(merge: Merge, guarantee: Guarantee) -> str:
    """Which row a key ends with, and which duplicates are covered by that."""
    key = ", ".join(merge.key)
    covered = "records that a producer sent twice" + (
        ", and what the pipeline itself repeats after a crash" if guarantee is Guarantee.AT_LEAST_ONCE else ""
    )
    if merge.mode is Mode.DEDUPE:
        return f"the first to land keeps the row of its ({key}); this covers {covered}, under the same key"
    order = f"the highest {merge.order_by}, then the highest offset" if merge.order_by else "the highest offset"
    across = "" if merge.order_by else ", across partitions the later commit"
    deletes = "; an event without a value deletes the row" if merge.deletes else ""
    return (
        f"{order} of a ({key}) has the row{across}{deletes}; this covers {covered}, but not an effect "
        "that adds up elsewhere"
    )


def _moved(options: PostgresOptions, stored: Sequence[StoredPosition], now: Mapping[TopicPartition, int]) -> list[str]:
    added = 0 < len(stored) < len(now)
    return [PARTITIONS_ADDED] if added and options.mode is Mode.UPSERT and not options.order_by else []


def _against_the_world(spec: PipelineSpec, plan: Plan, columns: pa.Schema) -> Plan:
    """Where it would resume and how much waits there, and whether the table fits."""
    options = spec.postgres
    cluster = Cluster(spec.kafka)
    topic = TopicReader(cluster, spec.source.topic)
    with reader(options.dsn or "") as connection:
        fitting, exists = fit_columns(connection, options.table, columns, options.key)
        rows = stored_positions(connection, options.ledger_schema, spec.name)
    stored = {TopicPartition(row.topic, row.partition): row.position for row in rows}
    resume = topic.positions(stored, spec.source.start)
    ends = topic.ends(resume)
    facts = topic_facts(cluster, spec.source.topic)
    limits = topic_findings(facts) if facts else ()
    return replace(
        plan,
        columns={column.name: column.type for column in fitting},
        table_exists=exists,
        resume={str(partition): position for partition, position in sorted(resume.items())},
        waiting=sum(max(end - resume[at], 0) for at, end in ends.items()),
        warnings=[
            *plan.warnings,
            *_moved(options, rows, resume),
            *(f"before the topic: {finding.reason}: {finding.remedy}" for finding in limits),
        ],
    )
