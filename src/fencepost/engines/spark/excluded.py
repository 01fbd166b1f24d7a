"""Records of a batch that cannot be delivered: excluded from it, and kept whole for the dead letters."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from fencepost.engines.spark.offsets import PLACE, among
from fencepost.engines.spark.source import KafkaSource
from fencepost.errors import Poison, Refused, Repeated
from fencepost.model import Span, TopicPartition
from fencepost.rows.dead_letters import RECORD_SCHEMA, SCHEMA
from fencepost.rows.shape import MOST_ASIDE

Letters = Mapping[TopicPartition, pa.RecordBatch]


@dataclass
class ExcludedRecords:
    """What was dead-lettered of one batch so far."""

    source: KafkaSource | None  # None: nobody can read its records again, and none is dead-lettered
    place: Sequence[str] = PLACE  # the columns of the batch that say where a record is
    reasons: dict[TopicPartition, dict[int, str]] = field(default_factory=dict)
    _letters: dict[TopicPartition, list[dict[str, object]]] = field(default_factory=dict)
    _there: dict[TopicPartition, set[int]] = field(default_factory=dict)  # whose rows are in the table already

    def offsets(self) -> dict[TopicPartition, set[int]]:
        """Everything that is left out of the batch."""
        places = self.reasons.keys() | self._there.keys()
        return {at: {*self.reasons.get(at, ()), *self._there.get(at, ())} for at in places}

    def letters(self) -> Letters:
        schema = RECORD_SCHEMA if self.source and self.source.records else SCHEMA
        return {at: pa.RecordBatch.from_pylist(letters, schema=schema) for at, letters in self._letters.items()}

    def without(self, records: DataFrame) -> DataFrame:
        """The batch without them."""
        bad = among(self.offsets(), self.place)
        return records if bad is None else records.where(~bad)

    def leave_out(self, repeated: Repeated) -> None:
        """Their rows are there already: no letter is written for them. Raises it where these are left out already."""
        known = self._there.setdefault(_place(repeated.partition), set())
        if known.issuperset(repeated.offsets):
            raise repeated
        known.update(repeated.offsets)

    def add(self, spark: SparkSession, poison: Poison, require: Callable[[TopicPartition], object]) -> None:
        """Dead-letter these too, each with its raw record, unless `require` refuses that many."""
        partition = _place(poison.partition)
        known = self.reasons.setdefault(partition, {})
        new = {offset: reason for offset, reason in poison.records if offset not in known}
        if not new or self.source is None:
            raise poison
        known.update(new)
        require(partition)
        if len(known) > MOST_ASIDE:
            raise Refused(
                f"{poison.message}: more than {MOST_ASIDE:,} records of one batch are bad",
                f"fix the transform, or set batch: {{records: {MOST_ASIDE}}}",
            )
        self._letters.setdefault(partition, []).extend(_raw(spark, self.source, partition, new))


def _raw(
    spark: SparkSession, source: KafkaSource, partition: TopicPartition, bad: Mapping[int, str]
) -> list[dict[str, object]]:
    span = Span(min(bad), max(bad) + 1)
    records = replace(source, headers=True).batch(spark, partition, span)
    micros = f.unix_micros("timestamp").alias("timestamp")  # collected as a time it would lose its zone
    wanted = records.where(among({partition: bad}))  # type: ignore[arg-type]
    found = wanted.select("topic", "partition", "offset", "key", "value", "headers", micros).collect()
    return [_letter(row, bad[row.offset], source.records) for row in found]


def _place(partition: str) -> TopicPartition:
    topic, _, number = partition.rpartition("/")
    return TopicPartition(topic, int(number))


def _letter(row: Row, reason: str, record: bool) -> dict[str, object]:
    pairs = [(header.key, header.value) for header in row.headers or []]
    headers = [[_text(name), _text((value or b"").decode(errors="replace"))] for name, value in pairs]
    return {
        "topic": row.topic,
        "partition": row.partition,
        "offset": row.offset,
        "key": row.key,
        "value": row.value,
        "headers": [{"key": name, "value": value} for name, value in pairs] if record else json.dumps(headers),
        "timestamp": row.timestamp,
        "_dead": _text(reason),
    }


def _text(text: str) -> str:
    """PostgreSQL's texts hold every character but one, and a record must not be too bad to be dead-lettered."""
    return text.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
