"""The streaming query that a batch belongs to, as Spark has it: its source, its plan, and what the batch reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

from fencepost.engines.spark import plan
from fencepost.engines.spark.operators import stateful_part, streams_read
from fencepost.errors import Usage
from fencepost.model import Span, TopicPartition

_QUERY = "sql.streaming.queryId"  # a local property of the thread in which a batch is called
_SCAN = "StreamingDataSourceV2ScanRelation"
_KAFKA = "org.apache.spark.sql.kafka010.KafkaMicroBatchStream"
_ASYNC = "AsyncProgressTracking"  # begins the name of the class that stores its progress at other times


@dataclass(frozen=True)
class Reads:
    """Of one batch: every partition with its span, which is empty where there is nothing new."""

    spans: Mapping[TopicPartition, Span]

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(sorted({at.topic for at in self.spans}))

    @property
    def starts(self) -> Mapping[TopicPartition, int]:
        return {at: span.start for at, span in self.spans.items()}

    @property
    def records(self) -> Mapping[TopicPartition, Span]:
        """Without the empty ones."""
        return {at: span for at, span in self.spans.items() if span.start < span.end}


@dataclass(frozen=True)
class RunningQuery:
    """One run of it: a query that is started again is another one."""

    run: str
    checkpoint: str
    _query: Any

    def require_kafka(self) -> None:
        """Raises Usage where it streams something else than Spark's Kafka source, too, or where it keeps state."""
        for source in streams_read(self._query.logicalPlan()):
            if not _is_kafka(source):
                raise Usage(
                    f"the stream reads {source.simpleString(3)}, whose positions nobody can store",
                    'read it with spark.readStream.format("kafka")',
                )
        if (part := stateful_part(self._query.logicalPlan())) is not None:
            raise Usage(
                f"the stream keeps state from batch to batch ({part}), which would not fit the stored positions after "
                "a crash",
                "remove watermarks, windows, dropDuplicates, limit and joins of streams, or make it a pipeline with a "
                "checkpoint (docs/state.md)",
            )

    def source_options(self) -> list[dict[str, str]]:
        """Of each source, as its author wrote them."""
        found = streams_read(self._query.logicalPlan())
        return [dict(source.relation().options().asCaseSensitiveMap()) for source in found]

    @property
    def is_async(self) -> bool:
        return str(self._query.getClass().getSimpleName()).startswith(_ASYNC)

    def reads(self) -> Reads:
        """What its current batch reads. Raises Usage where two sources read a partition, each its own part of it."""
        scans = [scan for scan in streams_read(self._query.lastExecution().logical()) if scan.nodeName() == _SCAN]
        spans: dict[TopicPartition, Span] = {}
        for scan in scans:
            start, end = _offsets(scan.startOffset()), _offsets(scan.endOffset())
            for at, to in end.items():
                span = Span(start.get(at, 0), to)  # Spark reads a new one from 0
                if spans.setdefault(at, span) != span:
                    raise Usage(
                        f"two sources of the stream read {at}, one {spans[at]} and one {span}: it has one position",
                        "read it once, and use that DataFrame twice",
                    )
        return Reads(spans)

    def next_watermark(self) -> int:
        """For the batch after this one, which has run: what Spark itself will note of it."""
        tracker = self._query.watermarkTracker()
        tracker.updateWatermark(
            self._query.lastExecution().executedPlan()
        )  # as at the batch's end, where it is repeated
        return int(tracker.currentWatermark())

    @property
    def stream(self) -> str:
        """Spark's id of it, which a checkpoint keeps over all runs."""
        return str(self._query.id().toString())

    def nodes(self) -> list[str]:
        """Of the plan that made the batch's rows, above Kafka."""
        return plan.nodes_above(self._query.lastExecution().executedPlan(), "MicroBatchScan")

    def wait(self) -> None:
        """Until it has ended. Raises what ended it."""
        self._query.awaitTermination()


def query_of(records: DataFrame) -> RunningQuery:
    """Raises Usage outside of foreachBatch, and through Spark Connect."""
    if not isinstance(records, ClassicFrame):
        raise Usage(
            "through Spark Connect the plan of a batch is out of reach, and with it where its records came from",
            "start the stream in a session of its own: spark-submit in client mode, a script, a notebook",
        )
    found = _query_of_thread(records.sparkSession)
    if found is None:
        raise Usage("no streaming query calls this", "give it to writeStream.foreachBatch(...)")
    return RunningQuery(str(found.runId().toString()), str(found.resolvedCheckpointRoot()), found)


def _query_of_thread(spark: SparkSession) -> Any:
    context = spark.sparkContext
    if (name := context.getLocalProperty(_QUERY)) is None:
        return None
    key = context._jvm.java.util.UUID.fromString(name)  # type: ignore[union-attr]
    return spark._jsparkSession.sharedState().activeStreamingQueries().get(key)


def _is_kafka(source: Any) -> bool:
    return bool(source.nodeName() == _SCAN and source.stream().getClass().getName() == _KAFKA)


def _offsets(offset: Any) -> dict[TopicPartition, int]:
    """As Spark writes them into a checkpoint."""
    topics = json.loads(offset.get().json())
    return {TopicPartition(topic, int(number)): to for topic, each in topics.items() for number, to in each.items()}
