"""The audit's engine and relations at the size of the topic: Spark, its Kafka source, and what it reads a sink with."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from fencepost.audit.engines.engine import Row
from fencepost.audit.engines.relations import LOG
from fencepost.audit.question import Ranges
from fencepost.audit.rerun import names, require_same, sums_of
from fencepost.audit.scope import Doubt
from fencepost.engines.spark.failures import SparkFailure, translated
from fencepost.engines.spark.session import open_session
from fencepost.engines.spark.source import READING, KafkaSource, spark_options
from fencepost.engines.spark.transform import Transform, resolve
from fencepost.errors import Refused, Unreachable
from fencepost.model import EVENT_CHECKSUM, EVENT_ID, Merge, TopicPartition
from fencepost.rows.functions import FunctionName
from fencepost.rows.shape import RowShape
from fencepost.sinks.auditing import Relation
from fencepost.spec import PipelineSpec, SourceSpec

T = TypeVar("T")


class SparkEngine:
    """SQL on Spark."""

    name = "spark"

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._kept: list[DataFrame] = []

    def put(self, name: str, table: pa.Table) -> None:
        with _translated():
            self.spark.createDataFrame(table).createOrReplaceTempView(name)

    def view(self, name: str, query: str) -> None:
        with _translated():
            self.spark.sql(query).createOrReplaceTempView(name)

    def keep(self, name: str, query: str) -> None:
        with _translated():
            kept = self.spark.sql(query).persist()
            kept.createOrReplaceTempView(name)
        self._kept.append(kept)

    def rows(self, query: str) -> list[Row]:
        with _translated():
            found: list[Row] = self.spark.sql(query).toArrow().to_pylist()
            return found

    def hashes(self, *columns: str) -> tuple[str, str]:
        of = ", ".join(columns)
        return f"shiftrightunsigned(xxhash64({of}), 24)", f"CAST(hash({of}) AS BIGINT)"

    def remainder(self, number: str, divisor: int) -> str:
        return f"pmod({number}, {divisor})"

    def close(self) -> None:
        for kept in self._kept:
            kept.unpersist()


@contextmanager
def open_spark(name: str, settings: Mapping[str, str]) -> Iterator[SparkEngine]:
    with open_session(f"audit of {name}", settings) as spark:
        engine = SparkEngine(spark)
        try:
            yield engine
        finally:
            engine.close()


@dataclass(frozen=True)
class SparkLoader:
    """Makes the relations out of Kafka and the sink; nothing is read before a query needs it."""

    engine: SparkEngine
    kafka: Mapping[str, str]
    headers: bool = False  # ids and checksums: they cost time on every record
    source: SourceSpec | None = None  # a pipeline's: for conditions on its events

    def topics(
        self,
        name: str,
        topics: Sequence[str],
        ranges: Ranges | None,
        *,
        committed: bool = True,
        id_: str = "",
        origin: str = "",
    ) -> None:
        if ranges is not None and not any(at.topic in topics for at in ranges):
            self.engine.put(name, LOG.empty_table())  # Spark refuses to read no partition
        else:
            self._log(self._records(topics, ranges, committed), id_, origin).createOrReplaceTempView(name)

    def expected(self, topics: Sequence[str], ranges: Ranges, condition: str) -> None:
        """The records for which a condition holds, in the words in which a transform sees them."""
        spec = self.source or SourceSpec.model_validate({"topics": topics})
        source = KafkaSource(spec, self.kafka, 1, headers=self.headers)
        with _translated():
            events = source.events(self._records(topics, ranges, committed=True)).where(condition)
            events.select(
                "topic",
                f.col("partition").alias("part"),
                f.col("offset").alias("pos"),
                (f.col("event_id") if self.headers else f.lit(None).cast("string")).alias("id"),
                f.md5(f.col("value").cast("binary")).alias("payload"),
            ).createOrReplaceTempView("expected")

    def outputs(self, spec: PipelineSpec, ranges: Ranges, _in_doubt: Doubt) -> None:
        """`outputs`: what the pipeline's transform makes of these records, but for those that were dead-lettered.

        It is run twice. Raises Refused where that gives two results.
        """
        merge = spec.sink.options.merge
        if spec.checkpoint is not None:
            raise Refused("rows of a stream that keeps state do not say which events they came of")
        transform = resolve(self.engine.spark, spec, KafkaSource(spec.source, spec.kafka, 1))
        if merge is None or not transform.shape.provenance:
            raise Refused("the rows have no provenance")
        self.engine.spark.conf.set("spark.sql.adaptive.enabled", "true")  # a batch of ours is no stream's
        loader = replace(self, headers=transform.source.headers)
        with _translated():
            aside = self.engine.spark.table("dead").selectExpr("topic", "part AS partition", "pos AS offset")
            records = loader._records(spec.source.origins, ranges, committed=True)
            carried = records.join(f.broadcast(aside), ["topic", "partition", "offset"], "left_anti")
        before = None
        if spec.transform is not None:
            self._make(transform, carried, merge)
            before = sums_of(self.engine, "made", merge)
        self._make(transform, carried, merge)  # planned again: chance is drawn in the plan
        self.engine.keep("unnumbered", "SELECT *, monotonically_increasing_id() AS line FROM made")
        if before is not None:
            require_same(before, sums_of(self.engine, "unnumbered", merge))
        (count,) = self.engine.rows(
            "SELECT count(*) AS rows, count(DISTINCT topic, part, pos) AS events FROM unnumbered"
        )
        number = "row_number() OVER (PARTITION BY topic, part, pos ORDER BY line) - 1"
        number = number if count["rows"] > count["events"] else "0"  # a sort, only where events have several rows
        self.engine.view("outputs", f"SELECT *, {number} AS n FROM unnumbered")

    @staticmethod
    def _make(transform: Transform, records: DataFrame, merge: Merge) -> None:
        """`made`: the columns that count, of what comes of these records."""
        with _translated():
            made = transform.made(records)
            if transform.shape.arrow:
                made = _in_arrow(made, transform.shape.arrow)
            tombstone = f.col("_from.tombstone") if transform.shape.tombstones else f.lit(False)
            made.select(
                f.col("_from.topic").alias("topic"),
                f.col("_from.partition").alias("part"),
                f.col("_from.offset").alias("pos"),
                tombstone.alias("tombstone"),
                *(f.col(f"`{column}`").alias(name) for name, column in names(merge).items()),
            ).createOrReplaceTempView("made")

    def rows(self, name: str, relation: Relation) -> None:
        """A sink's rows: by Spark itself, or, where it cannot read them, through this process."""
        if relation.spark is None:
            self.engine.put(name, relation.arrow())
            return
        reads = relation.spark()
        with _translated():
            parts = [self.engine.spark.read.format(one.format).options(**one.options).load() for one in reads]
            reduce(DataFrame.unionByName, parts).createOrReplaceTempView(name)

    def _records(self, topics: Sequence[str], ranges: Ranges | None, committed: bool) -> DataFrame:
        options = {
            **READING,
            **spark_options(self.kafka),
            "kafka.isolation.level": "read_committed" if committed else "read_uncommitted",
            "failOnDataLoss": "true",
            "includeHeaders": str(self.headers).lower(),
        }
        if ranges is None:
            options |= {"subscribe": ",".join(topics), "startingOffsets": "earliest", "endingOffsets": "latest"}
        else:
            known = {at: span for at, span in ranges.items() if at.topic in topics}
            options["assign"] = json.dumps({topic: sorted(own) for topic, own in _by_topic(known).items()})
            options["startingOffsets"] = json.dumps(_by_topic({at: span.start for at, span in known.items()}))
            options["endingOffsets"] = json.dumps(_by_topic({at: span.end for at, span in known.items()}))
        with _translated():
            return self.engine.spark.read.format("kafka").options(**options).load()

    def _log(self, records: DataFrame, id_: str, origin: str = "") -> DataFrame:
        return records.select(
            "topic",
            f.col("partition").alias("part"),
            f.col("offset").alias("pos"),
            (f.col(id_).cast("string") if id_ else self._header(EVENT_ID)).alias("id"),
            "key",
            self._intact().alias("intact"),
            f.md5("value").alias("payload"),
            f.col("value").isNull().alias("tombstone"),
            *([self._header(origin).alias("origin")] if origin else []),
        )

    def _header(self, name: str) -> Any:
        if not self.headers:
            return f.lit(None).cast("string")
        named = f.filter("headers", lambda header: header["key"] == name)
        return f.get(named, f.lit(0))["value"].cast("string")

    def _intact(self) -> Any:
        computed = f.lpad(f.lower(f.hex(f.crc32(f.coalesce("value", f.lit(b""))))), 8, "0")
        return self._header(EVENT_CHECKSUM) == computed


def _in_arrow(events: DataFrame, function: FunctionName) -> DataFrame:
    """What a transform of record batches makes of them."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        return map(function.load(), batches)

    made = RowShape(provenance=False, arrow=function, flat=False).made_schema(to_arrow_schema(events.schema))
    return events.mapInArrow(run, from_arrow_schema(made))


def _by_topic(places: Mapping[TopicPartition, T]) -> dict[str, dict[int, T]]:
    """As Spark takes them, in JSON."""
    found: dict[str, dict[int, T]] = defaultdict(dict)
    for at, thing in places.items():
        found[at.topic][at.partition] = thing
    return found


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except SparkFailure as error:
        failure = translated(error)
        if isinstance(failure, Unreachable):
            raise failure from error
        raise Refused(f"the audit's query failed on Spark: {failure.message}") from error
