"""What a run would do, said without moving anything: the guarantee hop by hop, the settings, the face, the start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from fencepost.cluster.client import Cluster
from fencepost.cluster.positions import TopicReader
from fencepost.cluster.topics import topic_facts
from fencepost.guarantee import Guarantee
from fencepost.model import TopicPartition
from fencepost.rules import Face, choose_face, require, sink_findings, topic_findings
from fencepost.sinks.postgres.columns import columns_for
from fencepost.sinks.postgres.reading import reader, stored_positions
from fencepost.sinks.postgres.session import WRITER_SETTINGS
from fencepost.sinks.postgres.table import fit_columns
from fencepost.sinks.postgres.traits import TRAITS
from fencepost.spec import PipelineSpec

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

    require(spec.guarantee, sink_findings(TRAITS))
    seen = preview(spec)
    face = choose_face(TRAITS, seen.wide_node)
    plan = Plan(
        pipeline=spec.name,
        guarantee=spec.guarantee.value,
        hops=[
            HopPlan("topic to reader", "only committed records are read; records that are gone stop the run"),
            HopPlan("reader to sink", READER_WHY[spec.guarantee]),
        ],
        settings={**seen.settings, **{f"postgresql {name}": value for name, value in WRITER_SETTINGS.items()}},
        face="direct" if face is Face.PARTITION else "staged",
        face_why="every node of the plan keeps Kafka's partitions apart: one task is one partition and one transaction",
        columns={column.name: column.type for column in columns_for(seen.columns)},
        table=spec.sink.options.table,
        warnings=[] if seen.provenance else [NO_PROVENANCE],
    )
    return plan if offline else _against_the_world(spec, plan, seen.columns)


def _against_the_world(spec: PipelineSpec, plan: Plan, columns: pa.Schema) -> Plan:
    """Where it would resume and how much waits there, and whether the table fits."""
    options = spec.sink.options
    cluster = Cluster(spec.kafka)
    topic = TopicReader(cluster, spec.source.topic)
    with reader(options.dsn or "") as connection:
        fitting, exists = fit_columns(connection, options.table, columns)
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
        warnings=[*plan.warnings, *(f"before the topic: {finding.reason}: {finding.remedy}" for finding in limits)],
    )
