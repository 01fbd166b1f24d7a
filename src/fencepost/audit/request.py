"""What somebody wants audited."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from fencepost.errors import Usage
from fencepost.guarantee import Guarantee
from fencepost.kafka.offsets import Start
from fencepost.model import Mode
from fencepost.sinks import registry
from fencepost.sinks.auditing import CanBeAudited, Columns, ComparesKeys, LandedRecords, LandedRows
from fencepost.sinks.kind import GoesByName, SinkJob, require_able
from fencepost.spec import PipelineSpec, SinkSpec, SourceSpec

SMALL = 500_000  # offsets: up to so many are compared before Spark has started


class EngineChoice(StrEnum):
    AUTO = "auto"
    PYTHON = "python"
    SPARK = "spark"


@dataclass(frozen=True)
class AuditRequest:
    """One log, of one topic or several, one sink, and by what they are compared."""

    guarantee: Guarantee
    kafka: Mapping[str, str] = field(repr=False)
    topic: str
    sink: SinkSpec | None = field(default=None, repr=False)  # may hold a password
    pipeline: str | None = None  # whose positions are the horizon
    source: SourceSpec | None = None
    mode: Mode = Mode.APPEND  # which events of the log must have a row: each, the newest or the first of each key
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
    own_stream: bool = False  # its transform is somebody's own code: what it filters or merges is not known here

    def __post_init__(self) -> None:
        if self.sink is not None:
            require_able(self.sink.kind, CanBeAudited, self.sink.format, "be audited")
        elif not self.journals:
            raise Usage("there is nothing to compare the topic with", "give --sink, --journal or a pipeline file")
        if self.expect and self.engine is EngineChoice.PYTHON:
            raise Usage("--expect is a condition in Spark's SQL", "remove --engine python")
        if self.expect and self.mode is not Mode.APPEND:
            raise Usage(f"--expect goes with append, not with {self.mode}", "remove it: keys decide which events count")

    @property
    def topics(self) -> tuple[str, ...]:
        """All of the log."""
        return (self.topic, *self.also)

    @property
    def merged(self) -> PipelineSpec | None:
        """The pipeline, where only its transform tells which event of a key has the row."""
        merges = self.sink is not None and isinstance(self.sink.kind, ComparesKeys)
        return self.spec if self.mode is not Mode.APPEND and merges else None

    @property
    def filters(self) -> bool:
        """May a record have no row because the pipeline made none of it?"""
        known = self.spec is not None and self.spec.transform is not None
        return (known or self.own_stream) and not self.expect

    @property
    def job(self) -> SinkJob | None:
        """What is asked of the sink."""
        if self.sink is None:
            return None
        letters = self.spec.dead_letters.topic if self.spec is not None else None
        return SinkJob(
            self.pipeline or "", self.guarantee, self.sink.options, self.kafka, self.spark, letter_topic=letters
        )

    def chosen(self, offsets: int) -> EngineChoice:
        """Spark where the topic is large, or where a condition or a transform needs it."""
        if self.engine is not EngineChoice.AUTO:
            return self.engine
        transform = self.merged.transform if self.merged else None
        needed = self.expect or (transform is not None and transform.arrow is None)
        return EngineChoice.SPARK if needed or offsets > SMALL else EngineChoice.PYTHON


def of_pipeline(spec: PipelineSpec, own_stream: bool = False) -> AuditRequest:
    """What a pipeline should have done, or the stream of that name: up to its position."""
    topic, *also = spec.source.origins
    merge = spec.sink.options.merge
    return AuditRequest(
        spec.guarantee,
        spec.kafka,
        topic,
        spec.sink,
        pipeline=spec.name,
        source=spec.source,
        mode=merge.mode if merge else Mode.APPEND,
        deletes=merge is not None and merge.deletes,
        spark=spec.spark,
        also=tuple(also),
        spec=None if own_stream else spec,
        own_stream=own_stream,
    )


def what_landed(request: AuditRequest) -> LandedRows | LandedRecords | None:
    """The sink's side. Reads no row yet. Raises Usage where it is not there."""
    if request.sink is None or request.job is None:
        return None
    kind = require_able(request.sink.kind, CanBeAudited, request.sink.format, "be audited")
    return kind.what_landed(request.job, Columns(request.id_column, request.payload))


def sink_named(written: str, local_dsn: Callable[[], str]) -> SinkSpec:
    """A sink without a pipeline, as in `topic:NAME`. Raises Usage."""
    word, _, name = written.partition(":")
    ways = []
    for format_ in sorted(registry.names(), key=lambda one: one != word):
        kind = registry.kind(format_)
        if not isinstance(kind, GoesByName):
            continue
        if name and word in (format_, kind.by_name.partition(":")[0]):
            return SinkSpec(format=format_, options=kind.named(name).completed(local_dsn))
        ways.append(kind.by_name)
    raise Usage(f"--sink {written}", f"write {' or '.join(ways)}")
