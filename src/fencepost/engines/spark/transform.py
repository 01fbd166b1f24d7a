"""The transform of a pipeline, applied to each batch, and the rows that come of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from fencepost.engines.spark.batch_rows import BatchRows, flat_schema, require_place
from fencepost.engines.spark.operators import stateful_operator
from fencepost.engines.spark.selection import Selection, queried
from fencepost.engines.spark.source import KafkaSource
from fencepost.errors import FencepostError, Usage
from fencepost.rows.functions import FunctionName
from fencepost.rows.shape import FROM, MOST_ASIDE, MOST_POISON, RowShape
from fencepost.rules.sinks import require_stateless
from fencepost.spec import PipelineSpec, TransformSpec, ValueFormat

T = TypeVar("T")

ALWAYS = ("key", "value", "timestamp", FROM)
RECORD = ("key", "value", "headers", "timestamp", FROM)  # for a sink that takes records


@dataclass(frozen=True)
class Transform(BatchRows):
    """A resolved transform: what is read, what is done on Spark, what in the task, and the columns that result."""

    source: KafkaSource
    spec: TransformSpec | None
    folder: str
    carries_provenance: bool  # `_from` comes out of it

    def apply(self, records: DataFrame) -> DataFrame:
        """The batch's rows as the writer of one partition expects them."""
        return self.for_partitions(self.made(records))

    def made(self, records: DataFrame) -> DataFrame:
        """What the declared transform makes of the batch."""
        return self.of_events(self.source.events(records))

    def of_events(self, events: DataFrame) -> DataFrame:
        return on_spark(events, self.spec, self.folder, self.source)


def resolve(spark: SparkSession, spec: PipelineSpec, source: KafkaSource) -> Transform:
    """Try the transform on no records. Raises Usage with Spark's own words where it does not fit the source."""
    spark.conf.set("spark.sql.adaptive.enabled", "false")  # as in a stream's batches: what is planned here runs there
    return tried(lambda source: _resolve(spark, spec, source), source)


def tried(attempt: Callable[[KafkaSource], T], source: KafkaSource) -> T:
    """With headers where it does not go without. Raises Usage with Spark's own words where it does not go at all."""
    try:
        return attempt(source)
    except ParseException as error:
        raise Usage(f"transform.sql: {_first_line(error)}") from error
    except (AnalysisException, Usage) as error:
        try:
            return attempt(replace(source, headers=True))  # it may have asked for headers or event_id
        except AnalysisException:
            raise Usage(f"the transform does not fit the events: {_first_line(error)}") from error


def _resolve(spark: SparkSession, spec: PipelineSpec, source: KafkaSource) -> Transform:
    transform, folder = spec.transform, spec.folder
    source = replace(source, tombstones=_deletes(spec))
    records = spec.sink.kind.capabilities.records
    source = replace(source, headers=source.headers or (records and transform is None), records=records)
    made = on_spark(source.events(source.empty(spark)), transform, folder, source)
    require_stateless(stateful_operator(made) or _stateful_on_a_stream(spark, spec, source))
    require_place(made)
    arrow = FunctionName(transform.arrow, folder) if transform and transform.arrow else None
    as_it_is = arrow or records
    planned = to_arrow_schema(made.schema) if as_it_is else flat_schema(made)
    most = MOST_POISON if spec.brake is None else MOST_ASIDE
    plain = RowShape(provenance=False, arrow=arrow, flat=not records, most_bad=most).tried(planned)
    carried = plain.made or planned
    carries_provenance = FROM in carried.names
    provenance = carries_provenance and spec.sink.options.provenance
    shape = replace(plain, provenance=provenance, tombstones=provenance and source.tombstones)
    columns = shape.schema(planned)
    return Transform(shape, columns, source, transform, folder, carries_provenance)


def _stateful_on_a_stream(spark: SparkSession, spec: PipelineSpec, source: KafkaSource) -> str | None:
    """Spark drops a watermark from what is not a stream, so the transform is tried on one too."""
    try:
        return stateful_operator(on_spark(source.events(source.endless(spark)), spec.transform, spec.folder, source))
    except (AnalysisException, Usage):
        return None  # it does what cannot be done to a stream, and then it does not mean one


def _deletes(spec: PipelineSpec) -> bool:
    return spec.sink.options.merge is not None and spec.sink.options.merge.deletes


def on_spark(events: DataFrame, spec: TransformSpec | None, folder: str, source: KafkaSource) -> DataFrame:
    """What the declared transform makes of the events of a batch, or of a stream."""
    if spec is None:
        if not source.unchanged:
            source.unchanged.append(Selection(_as_it_is(events, source)))
        return source.unchanged[0].of(events)
    if spec.sql is not None:
        events.createOrReplaceTempView("events")
        return queried(spec.sql, events)
    if spec.spark is not None:
        made = _called(FunctionName(spec.spark, folder), events)
        if not isinstance(made, DataFrame):
            raise Usage(f"transform.spark: {spec.spark} returned {type(made).__name__}, not a DataFrame")
        return made
    return events


def _called(function: FunctionName, events: DataFrame) -> object:
    """What somebody's function makes of the events, on the driver; it may raise anything."""
    try:
        return function.load()(events)
    except (FencepostError, AnalysisException):
        raise
    except Exception as error:
        raise Usage(f"transform.spark: {function} raised {type(error).__name__}: {error}") from error


def _as_it_is(events: DataFrame, source: KafkaSource) -> list[str]:
    """Without a transform: a JSON value's fields, or key and value as they are."""
    if source.spec.value is ValueFormat.JSON and source.spec.fields:
        start = events.columns.index(FROM)
        return [*events.columns[start + 1 :], FROM]
    return list(RECORD if source.records else ALWAYS)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
