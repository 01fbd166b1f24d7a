"""What somebody wants audited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from fencepost.errors import Usage
from fencepost.guarantee import Guarantee
from fencepost.kafka.offsets import Start
from fencepost.sinks.kafka.options import KafkaOptions
from fencepost.sinks.postgres.kind import options_of
from fencepost.spec import PipelineSpec, SourceSpec

SMALL = 500_000  # offsets: up to so many are compared before Spark has started


class EngineChoice(StrEnum):
    AUTO = "auto"
    PYTHON = "python"
    SPARK = "spark"


class SinkMode(StrEnum):
    """Which events of the log must have a row."""

    APPEND = "append"  # each
    UPSERT = "upsert"  # the newest of each key
    DEDUPE = "dedupe"  # the first of each key


@dataclass(frozen=True)
class AuditRequest:
    """One log, of one topic or several, one sink, and by what they are compared."""

    guarantee: Guarantee
    kafka: Mapping[str, str] = field(repr=False)
    topic: str
    table: str | None = None  # in PostgreSQL
    dsn: str | None = field(default=None, repr=False)
    sink_topic: str | None = None
    pipeline: str | None = None  # whose positions are the horizon
    ledger_schema: str = "fencepost"
    source: SourceSpec | None = None
    mode: SinkMode = SinkMode.APPEND
    deletes: bool = False  # upsert: a key whose newest event has no value has no row
    journals: tuple[Path, ...] = ()
    expect: str | None = None  # Spark SQL on the source: events for which it does not hold have no row
    id_column: str | None = None
    payload: str | None = None  # the column that holds the event's value as it was
    since: Start | None = None
    until: Start | None = None
    engine: EngineChoice = EngineChoice.AUTO
    spark: Mapping[str, str] = field(default_factory=dict)
    most: int = 100
    also: tuple[str, ...] = ()  # further topics of the log
    spec: PipelineSpec | None = field(default=None, repr=False)  # whose transform can be run again

    def __post_init__(self) -> None:
        if self.table is None and self.sink_topic is None and not self.journals:
            raise Usage("there is nothing to compare the topic with", "give --sink, --journal or a pipeline file")
        if self.expect and self.engine is EngineChoice.PYTHON:
            raise Usage("--expect is a condition in Spark's SQL", "leave --engine python away")
        if self.expect and self.mode is not SinkMode.APPEND:
            raise Usage(
                f"--expect goes with append, not with {self.mode}", "leave it away: keys say which events count"
            )

    @property
    def topics(self) -> tuple[str, ...]:
        """All of the log."""
        return (self.topic, *self.also)

    @property
    def merged(self) -> PipelineSpec | None:
        """The pipeline, where only its transform tells which event of a key has the row."""
        return self.spec if self.mode is not SinkMode.APPEND and self.table is not None else None

    def chosen(self, offsets: int) -> EngineChoice:
        """Spark where the topic is large, or where a condition or a transform needs it."""
        if self.engine is not EngineChoice.AUTO:
            return self.engine
        transform = self.merged.transform if self.merged else None
        needed = self.expect or (transform is not None and transform.arrow is None)
        return EngineChoice.SPARK if needed or offsets > SMALL else EngineChoice.PYTHON


def of_pipeline(spec: PipelineSpec) -> AuditRequest:
    """Into a topic events are compared by their ids, which their producers gave them."""
    topic, *also = spec.source.origins
    if isinstance(spec.sink.options, KafkaOptions):
        target, source = spec.sink.options.topic, spec.source
        return AuditRequest(
            spec.guarantee,
            spec.kafka,
            topic,
            sink_topic=target,
            source=source,
            spark=spec.spark,
            also=tuple(also),
            spec=spec,
        )
    options = options_of(spec.sink.format, spec.sink.options)
    return AuditRequest(
        spec.guarantee,
        spec.kafka,
        topic,
        options.table,
        options.dsn or "",
        pipeline=spec.name,
        ledger_schema=options.ledger_schema,
        source=spec.source,
        mode=SinkMode(options.mode),
        deletes=options.tombstones == "delete",
        spark=spec.spark,
        also=tuple(also),
        spec=spec,
    )
