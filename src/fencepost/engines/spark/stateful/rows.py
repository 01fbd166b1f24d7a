"""The rows of a stream that keeps state: the transform is part of the stream, and Spark calls with what came of it."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession

from fencepost.engines.spark.batch_rows import BatchRows, flat_schema
from fencepost.engines.spark.operators import function_with_state, stateful_part
from fencepost.engines.spark.source import KafkaSource
from fencepost.engines.spark.transform import on_spark, tried
from fencepost.errors import Usage
from fencepost.rows.shape import RowShape
from fencepost.rules.findings import require_fixed
from fencepost.spec import OutputMode, PipelineSpec

STATEFUL = {
    # each term has a folder of its own already
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "1",
    # Spark's default: a task that is tried again must leave the state of its last attempt, whose rows count. The
    # manager of throw-away checkpoints keeps the first one's, without a word.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
    "FileContextBasedCheckpointFileManager",
}


RETAINED = "spark.sql.streaming.minBatchesToRetain"


@dataclass(frozen=True)
class StreamRows(BatchRows):
    """Of one pipeline. Rows of many records do not say where they came from: `_from` is left out."""

    source: KafkaSource
    spec: PipelineSpec
    keeps: str  # the part of the transform that keeps state

    def made(self, records: DataFrame) -> DataFrame:
        return records

    def of_stream(self, records: DataFrame) -> DataFrame:
        return _of_stream(self.spec, self.source, records)


def resolve_stream(spark: SparkSession, spec: PipelineSpec, source: KafkaSource) -> StreamRows:
    """Try the transform on a stream that nobody starts. Raises Usage with Spark's own words where it does not fit."""
    require_fixed(spec.spark, STATEFUL, "spark")
    if spec.spark.get(RETAINED, "").strip() == "1":
        raise Usage(f"spark: {RETAINED} is 1: Spark would clear away what a takeover goes on from", "keep 2 or more")
    for name, value in {"spark.sql.adaptive.enabled": "false", **STATEFUL}.items():
        spark.conf.set(name, value)
    return tried(lambda source: _resolved(spark, spec, source), source)


def _resolved(spark: SparkSession, spec: PipelineSpec, source: KafkaSource) -> StreamRows:
    made = _of_stream(spec, source, source.endless(spark))
    plan = made._jdf.queryExecution().analyzed()
    part = stateful_part(plan) if made.isStreaming else None
    if part is None:
        raise Usage(
            "checkpoint is given, and nothing in the transform keeps state",
            "remove checkpoint, or group, deduplicate or join over the stream",
        )
    if (function := function_with_state(plan)) is not None:
        raise Usage(
            f"functions with a state of their own ({function}) were not tried out: their timers and stores may need "
            "more than a checkpoint for each owner",
            "use watermarks with windows, dropDuplicates, dropDuplicatesWithinWatermark or joins of streams",
        )
    _require_able(spark, plan, spec.output_mode)
    shape = RowShape(provenance=False)
    return StreamRows(shape, shape.schema(flat_schema(made)), source, spec, part)


def _of_stream(spec: PipelineSpec, source: KafkaSource, records: DataFrame) -> DataFrame:
    transform, events = spec.transform, source.events(records)
    if transform and transform.watermark:
        try:
            events = events.withWatermark(transform.watermark.column, transform.watermark.delay)
        except IllegalArgumentException as error:
            raise Usage(f"transform.watermark: {str(error).splitlines()[0]}", "such as delay: 10 minutes") from error
    return on_spark(events, transform, spec.folder, source)


def _require_able(spark: SparkSession, plan: object, mode: OutputMode) -> None:
    """What Spark refuses when the stream starts, before anything is taken over."""
    jvm = spark.sparkContext._jvm
    modes = jvm.org.apache.spark.sql.streaming.OutputMode  # type: ignore[union-attr]
    asked = modes.Update() if mode is OutputMode.UPDATE else modes.Append()
    try:
        checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker  # type: ignore[union-attr]
        checker.checkForStreaming(plan, asked)
    except AnalysisException as error:
        raise Usage(f"the transform does not go with output_mode: {mode}: {str(error).splitlines()[0]}") from error
