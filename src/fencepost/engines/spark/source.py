"""Topics as a stream: always read_committed, never silent about records that are gone."""

from __future__ import annotations

import json
import secrets
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from fencepost.engines.spark.selection import Selection
from fencepost.errors import Usage
from fencepost.kafka.config.java import java_settings
from fencepost.model import EVENT_ID, Span, TopicPartition
from fencepost.rules.findings import require_fixed
from fencepost.spec import SourceSpec, ValueFormat

MALFORMED = "_malformed"  # the text that Spark could not parse
SEAL = f"_{secrets.token_hex(2)}"  # short, because every value is parsed with it; by chance, so that none can hold it
COLUMNS = {  # of Kafka's records
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "long",
    "timestamp": "timestamp",
    "timestampType": "int",
}
PARSING = {  # as strict as engine python's decoder
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": MALFORMED,
    "allowSingleQuotes": "false",
    "maxNestingDepth": "502",  # 500 of the value's own, and two of ours
    "enableDateTimeParsingFallback": "false",  # "1" is no date
}
# Half of a character that takes two: Spark would make a question mark of it.
LONE_SURROGATE = (
    r"(?:^|[^\\])(?:\\\\)*(?:"
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)
SOURCE_OPTIONS = {"kafka.isolation.level": "read_committed", "failOnDataLoss": "true"}
TRYING = {  # Spark gives up early and once: the run says that it waits, and finds out by itself who leads now
    "fetchOffset.numRetries": "1",
    "kafkaConsumer.pollTimeoutMs": "15000",  # longer than Kafka needs for a new leader
}
READING = {  # unless the pipeline says otherwise: half the time of Kafka's defaults
    "kafka.fetch.max.wait.ms": "10",  # a task that reads to the end of its partition waits so long there
    "kafka.max.partition.fetch.bytes": str(2 << 20),
    "kafka.max.poll.records": "5000",
}
ANSWERING = {  # unless the pipeline sets one of them: Spark's admin client clings to a dead leader for so long
    "kafka.request.timeout.ms": "5000",
    "kafka.default.api.timeout.ms": "5000",  # Kafka refuses one that is below the other
}


@dataclass(frozen=True)
class KafkaSource:
    """How the topics are read and what their records look like to a transform."""

    spec: SourceSpec
    kafka: Mapping[str, str]
    batch_records: int
    headers: bool = False  # headers cost time on every record: only where the transform asks for them
    tombstones: bool = False  # `_from` says whether the record has no value
    records: bool = False  # the sink takes records: without a transform they stay as they are

    def __post_init__(self) -> None:
        require_fixed(self.kafka, {"isolation.level": "read_committed"}, "kafka")
        spark_options(self.kafka)  # raises where they cannot be had

    def stream(self, spark: SparkSession, positions: Mapping[TopicPartition, int]) -> DataFrame:
        """The records from these positions on, which list every partition."""
        options = {
            **self._options(),
            "subscribe": ",".join(self.spec.origins),
            "startingOffsets": offsets_json(positions),
            "maxOffsetsPerTrigger": str(self.batch_records),
        }
        return spark.readStream.format("kafka").options(**options).load()

    def batch(self, spark: SparkSession, partition: TopicPartition, span: Span) -> DataFrame:
        """The records of one span, read again."""
        options = {
            **self._options(),
            "assign": json.dumps({partition.topic: [partition.partition]}),
            "startingOffsets": offsets_json({partition: span.start}),
            "endingOffsets": offsets_json({partition: span.end}),
        }
        return spark.read.format("kafka").options(**options).load()

    def _options(self) -> dict[str, str]:
        given = spark_options(self.kafka)
        return {
            **READING,
            **({} if given.keys() & ANSWERING.keys() else ANSWERING),
            **given,
            **SOURCE_OPTIONS,
            **TRYING,
            "includeHeaders": str(self.headers).lower(),
        }

    def empty(self, spark: SparkSession) -> DataFrame:
        """No record, in the form that Kafka's records have: to try a transform on."""
        nothing = spark.sparkContext.emptyRDD()  # an RDD, as a batch is: a list would be planned away
        return spark.createDataFrame(nothing, ", ".join(f"{name} {kind}" for name, kind in self._columns().items()))

    def endless(self, spark: SparkSession) -> DataFrame:
        """A stream in the same form, which nobody starts: some operators show themselves only there."""
        nothing = {name: f.lit(None).cast(kind) for name, kind in self._columns().items()}
        return spark.readStream.format("rate").load().select(*(value.alias(name) for name, value in nothing.items()))

    def _columns(self) -> dict[str, str]:
        headers = {"headers": "array<struct<key: string, value: binary>>"} if self.headers else {}
        return {**COLUMNS, **headers}

    def events(self, records: DataFrame) -> DataFrame:
        """Records as a transform sees them: the columns that are always there, and a JSON value's fields."""
        if not self._has_fields():
            return self._plain.of(records)
        parsed = self._with_json.of(records)
        if not self._checked:
            whole, *columns = self._of_fields(parsed)
            self._checked.append((whole, Selection(columns)))
        whole, every = self._checked[0]
        return every.of(parsed.withColumn("_json", whole))

    @cached_property
    def _plain(self) -> Selection:
        return Selection(self._always())

    @cached_property
    def _with_json(self) -> Selection:
        return Selection([*self._always(), self._two_documents().alias("_json")])

    def _always(self) -> list[Column]:
        mark = [f.col("value").isNull().alias("tombstone")] if self.tombstones else []
        place = f.struct("topic", "partition", "offset", *mark).alias("_from")
        always = ["timestamp", "topic", "partition", "offset"]
        return [f.col("key"), self._value(), *self._headers(), *map(f.col, always), place]

    @cached_property
    def _checked(self) -> list[tuple[Column, Selection]]:
        """The document where it is whole, and then every column; empty until the first records are seen."""
        return []

    @cached_property
    def unchanged(self) -> list[Selection]:
        """What comes of events without a transform; empty until the first are seen."""
        return []

    def _of_fields(self, parsed: DataFrame) -> list[Column]:
        """A value that is not JSON of the schema fails as soon as one of its fields is asked for."""
        kind = cast(StructType, parsed.select(_document(f.col("_json"))).schema[0].dataType)
        fields = [name for name in kind.fieldNames() if name != SEAL]
        columns = [name for name in parsed.columns if name != "_json"]
        clash = sorted(set(fields) & set(columns))
        if clash:
            raise Usage(f"source.schema: {', '.join(clash)} is a column of every event already", "rename it")
        wrong = _wrong(f.col("_json"))
        broken = f.raise_error(f.concat(f.lit("not JSON of the schema: "), wrong)).cast(kind)
        whole = f.when(wrong.isNull(), _document(f.col("_json"))).otherwise(broken)
        return [whole, *map(f.col, columns), *(f.col(f"_json.`{name}`") for name in fields)]

    def _has_fields(self) -> bool:
        return self.spec.value is ValueFormat.JSON and bool(self.spec.fields)

    def malformed(self, records: DataFrame) -> DataFrame | None:
        """Where values are not JSON of the schema; None where there is no schema to break."""
        if not self._has_fields():
            return None
        text = _wrong(self._two_documents())
        return records.select("topic", "partition", "offset", text.alias("text")).where(f.col("text").isNotNull())

    def _two_documents(self) -> Column:
        """The value as the first of two documents, the second of which is a seal that must be found intact.

        Spark stops reading at the end of the first document, whatever follows: so the end must not be the value's.
        """
        sealed = f.concat(f.lit(f'{{"{SEAL}":['), f.col("value").cast("string"), f.lit(f',{{"{SEAL}":true}}]}}'))
        schema = f"{SEAL} array<struct<{self.spec.fields}, {SEAL} boolean>>, {MALFORMED} string"
        return f.from_json(sealed, schema, PARSING)

    def _value(self) -> Column:
        return f.col("value") if self.spec.value is ValueFormat.BYTES else f.col("value").cast("string").alias("value")

    def _headers(self) -> list[Column]:
        if not self.headers:
            return []
        named = f.filter("headers", lambda header: header["key"] == EVENT_ID)
        return [f.col("headers"), f.get(named, f.lit(0))["value"].cast("string").alias("event_id")]


def spark_options(kafka: Mapping[str, str]) -> dict[str, str]:
    """The pipeline's `kafka:` block as options of Spark's source. Raises Usage for what cannot be had there."""
    return {f"kafka.{key}": value for key, value in java_settings(kafka).items()}


def _document(parsed: Column) -> Column:
    return f.get(parsed.getField(SEAL), f.lit(0))


def _wrong(parsed: Column) -> Column:
    """The text of a value that is not one JSON document of the schema; null for a good one, and where none is."""
    text = f.col("value").cast("string")
    documents = parsed.getField(SEAL)
    sealed = (f.size(documents) == 2) & f.get(documents, f.lit(1)).getField(SEAL)
    one = parsed.getField(MALFORMED).isNull() & _document(parsed).isNotNull() & f.coalesce(sealed, f.lit(False))
    halves = f.contains(text, f.lit("\\u")) & text.rlike(LONE_SURROGATE)
    return f.when(~(one & f.is_valid_utf8(text)) | halves, text)  # Spark repairs bad bytes


def offsets_json(positions: Mapping[TopicPartition, int]) -> str:
    """As Spark takes them: JSON by topic and partition."""
    offsets: dict[str, dict[str, int]] = defaultdict(dict)
    for partition, position in positions.items():
        offsets[partition.topic][str(partition.partition)] = position
    return json.dumps(offsets)
